#include "paceline/storage/objects/parallel.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "paceline/core/posix/thread.h"

namespace paceline::storage {

arrow::Status for_each_in_parallel(size_t count, const std::function<arrow::Status(size_t)>& call, size_t threads) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  arrow::Status first;
  const auto work = [&] {
    for (size_t index = next++; index < count; index = next++) {
      arrow::Status status = call(index);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex);
      if (first.ok()) first = std::move(status);
      next = count;
    }
  };
  std::vector<std::thread> others;
  for (size_t thread = 1; thread < std::min(threads, count); ++thread) others.push_back(start_thread(work));
  work();
  for (std::thread& other : others) other.join();
  return first;
}

}  // namespace paceline::storage
