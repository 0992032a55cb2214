// What the two forms of the backend "paceline" know of each other: that of one machine, and that for a group whose
// ranks are on several nodes, some of which have several.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "paceline/collective/group.h"
#include "paceline/comm/backend_internal.h"

namespace paceline::comm {

/// The store as collective/ wants it.
collective::Bulletin bulletin_in(const c10::intrusive_ptr<c10d::Store>& store);

/// Finds out which ranks share memory; collective. `name`: of the keys in the store, of no other meeting.
collective::RanksByNode meet_ranks(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name,
                                   const BackendSettings& settings);

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

/// Connects to all ranks; collective. `found`: of meet_ranks(). Shared memory within nodes, and Gloo among their
/// leaders.
ConnectedBackend connect_hierarchical(const c10::intrusive_ptr<c10d::Store>& store, const BackendSettings& settings,
                                      collective::RanksByNode found);

}  // namespace paceline::comm
