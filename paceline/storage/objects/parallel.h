// Calls on several threads, for requests that spend their time waiting: to an object store, or for a disk to sync.
#pragma once

#include <arrow/status.h>

#include <cstddef>
#include <functional>

namespace paceline::storage {

/// How many such requests are under way at once.
inline constexpr size_t kRequestsAtOnce = 8;

/// Calls `call` with 0 … count - 1, on at most `threads` threads, and waits for all. After an error no further calls
/// begin; gives the first error.
arrow::Status for_each_in_parallel(size_t count, const std::function<arrow::Status(size_t)>& call,
                                   size_t threads = kRequestsAtOnce);

}  // namespace paceline::storage
