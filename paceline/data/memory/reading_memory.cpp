#include "paceline/data/memory/reading_memory.h"

#include <arrow/memory_pool.h>

#include <cstdlib>

namespace paceline::data {

arrow::MemoryPool* reading_memory() {
  static arrow::MemoryPool* const pool = [] {
    arrow::MemoryPool* jemalloc = nullptr;
    const bool is_named = std::getenv("ARROW_DEFAULT_MEMORY_POOL") != nullptr;
    return !is_named && arrow::jemalloc_memory_pool(&jemalloc).ok() ? jemalloc : arrow::default_memory_pool();
  }();
  return pool;
}

}  // namespace paceline::data
