// What the files of comm/ that connect a backend share, and the rows that they give.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "paceline/comm/backend.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/core/progress.h"

namespace paceline::comm {

inline constexpr const char* kLoopback = "127.0.0.1";

/// Whether a backend is still there, for who would abort it from another thread. Thread-safe.
class BackendLife {
 public:
  /// Aborts it at once if it was to be aborted before.
  void begin(c10d::Backend* backend);
  /// The first thing that the backend's destructor does.
  void end();
  /// Aborts it, unless it has ended.
  void abort();

 private:
  std::mutex mutex_;
  c10d::Backend* backend_ = nullptr;
  bool is_aborted_ = false;
};

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
  /// The backend's own kind of options, in place of `timeout`; null for its defaults. Only NCCL's are looked at.
  c10::intrusive_ptr<c10d::Backend::Options> options;
  /// That the backend ends when it is destroyed; null where nobody asks, as of what a backend has inside.
  std::shared_ptr<BackendLife> life;
};

/// Those that the environment variable GLOO_SOCKET_IFNAME names, as for PyTorch's own groups.
std::vector<std::string> named_interfaces();

/// The address, in numbers, at which a rank with these settings waits for others, as Gloo chooses it. ConfigError where
/// an interface has none.
std::string listening_address(const BackendSettings& settings);

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
