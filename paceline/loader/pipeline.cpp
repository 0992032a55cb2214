#include "paceline/loader/pipeline.h"

#include <ATen/Parallel.h>

namespace paceline::loader {

// LibTorch keeps the number for each thread, and one for the threads that come: the latter is put back, by a thread
// that ends, so that nobody else's changes.
void compute_alone() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const int others = at::get_num_threads();
  at::set_num_threads(1);
  std::thread([others] { at::set_num_threads(others); }).join();
}

}  // namespace paceline::loader
