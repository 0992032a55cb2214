// What the two forms of the backend "paceline" have alike, that of one machine and that of several nodes: what they are
// called, how long they wait, how they count, and the groups that are split off.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "paceline/collective/arena.h"
#include "paceline/comm/backend_internal.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/core/progress.h"

namespace paceline::comm {

/// The groups that c10d splits off from one backend. abort() is thread-safe.
class SplitGroups {
 public:
  /// The group of some of the ranks of a backend with these settings; null where this rank is none of them. Collective
  /// among them.
  c10::intrusive_ptr<c10d::Backend> split_off(const BackendSettings& settings,
                                              const c10::intrusive_ptr<c10d::Store>& store,
                                              const std::vector<int>& ranks, std::chrono::milliseconds timeout);
  /// Aborts those that are still there.
  void abort();

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<BackendLife>> lives_;
  std::map<std::vector<int>, int64_t> made_;  // by their ranks
};

/// Threading: as c10d's backends, called from one thread at a time; abort() from any. What derives from it ends the
/// life of its settings as the first thing that its destructor does.
class OwnBackend : public c10d::Backend {
 public:
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;

  OwnBackend(const BackendSettings& settings, std::shared_ptr<collective::Arena> arena);

  const std::string getBackendName() const final { return "paceline"; }
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  void setSequenceNumberForGroup() final {}
  uint64_t getSequenceNumberForGroup() final { return called_; }

  bool supportsSplitting() const final { return true; }
  c10::intrusive_ptr<Options> getBackendOptions() final;
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) final;

  bool supportsTensorAlloc(c10::DeviceIndex) final { return true; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) final;

 protected:
  /// How long a call waits for which c10d says `asked`.
  std::chrono::milliseconds patience(std::chrono::milliseconds asked) const {
    return asked.count() > 0 ? asked : timeout_;
  }

  const BackendSettings settings_;
  std::chrono::milliseconds timeout_;
  const std::shared_ptr<GroupProgress> progress_;  ///< null: not counted
  const std::shared_ptr<FailureReporter> failures_;
  std::atomic<uint64_t> called_ = 0;
  SplitGroups split_groups_;

 private:
  const std::shared_ptr<collective::Arena> arena_;
};

}  // namespace paceline::comm
