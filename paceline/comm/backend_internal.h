// What the files of comm/ that connect a backend share, and the rows that they give.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/comm/backend.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/core/progress.h"

namespace c10d {
class Backend;
}

namespace paceline::comm {

inline constexpr const char* kLoopback = "127.0.0.1";

struct BackendSettings {
  int64_t rank = 0;
  int64_t world_size = 1;
  std::chrono::milliseconds timeout{};
  /// Where the other ranks reach this one: kLoopback where all are on this machine; "": the backend chooses.
  std::string address = kLoopback;
  /// Network interfaces to connect by; empty: those of GLOO_SOCKET_IFNAME where `address` is not kLoopback, else as it
  /// says.
  std::vector<std::string> interfaces;
  /// Ranks of other names share no memory with this one.
  std::string node;
  /// Where collectives are counted; null for nowhere.
  std::shared_ptr<GroupProgress> progress;
  ThrownAs thrown_as = ThrownAs::collective_error;
};

/// A backend of one group, and the way to make its waiting collectives fail.
struct ConnectedBackend {
  c10::intrusive_ptr<c10d::Backend> handle;
  /// Thread-safe; works at most once.
  std::function<void()> abort;
};

Backend gloo_backend();
/// Shared memory among the ranks of a machine, and Gloo among machines.
Backend shared_memory_backend();
Backend nccl_backend();

}  // namespace paceline::comm
