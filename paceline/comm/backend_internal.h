// What a c10d backend is to a Group: the backend itself and the way to make its waiting collectives fail.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>

#include "paceline/core/progress.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace paceline::comm {

struct BackendSettings {
  int64_t rank = 0;
  int64_t world_size = 1;
  std::chrono::milliseconds timeout{};
  /// All ranks are on this machine: connections stay on the loopback interface.
  bool loopback = true;
  /// Where collectives are counted; null for nowhere.
  Progress* progress = nullptr;
};

struct Backend {
  c10::intrusive_ptr<c10d::Backend> handle;
  /// Thread-safe; works at most once.
  std::function<void()> abort;
};

/// Connects to all ranks; collective. Throws what the backend throws.
Backend make_gloo(const c10::intrusive_ptr<c10d::Store>& store, const BackendSettings& settings);
/// CollectiveError where this build has no NCCL.
Backend make_nccl(const c10::intrusive_ptr<c10d::Store>& store, const BackendSettings& settings);
bool nccl_is_available();

}  // namespace paceline::comm
