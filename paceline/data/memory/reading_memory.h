// Where memory for rows comes from: pages of files, columns, batches.
#pragma once

#include <arrow/type_fwd.h>

namespace paceline::data {

/// A pool that never ends. Large blocks are used again (kept_pages.h), what is small is Arrow's default pool's. Where
/// ARROW_DEFAULT_MEMORY_POOL names a pool, it is that one for all.
arrow::MemoryPool* reading_memory();

}  // namespace paceline::data
