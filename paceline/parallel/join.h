// Join: ranks whose data ends early keep taking part in the collectives of the others' models.
//
// A model waits for all ranks in its synchronised backward. At the end of each backward the ranks tell each other which
// of them have made it. A rank whose data has ended makes a backward of zeros instead, with the same collectives, and
// leaves its weights alone. When the data of all ranks has ended, the models are set to those of a rank that made the
// last step. Collectives of the user's own in the loop have no such substitute: call none, or equally many on every
// rank. Threading: that of the models. Errors: CollectiveError, ConfigError.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/comm/group.h"
#include "paceline/parallel/parallel_model.h"

namespace paceline {

/// How join() treats ranks whose data ends early.
struct JoinOptions {
  /// Averaged gradients are sums over the ranks that still have data, divided by the number of all ranks, so the last
  /// steps, on little data, are small. If false, they are divided by the number of ranks that have data.
  bool divide_by_initial_world_size = true;
  /// Throws CollectiveError on every rank as soon as the data of one has ended before that of another, in the backward
  /// that this rank cannot make. Gradients are averaged then, but no step has been made with them.
  bool throw_on_early_termination = false;
};

namespace parallel {

/// Which ranks have made the backward that ends: what they tell each other there. Models ask it.
class JoinedRanks {
 public:
  JoinedRanks(std::shared_ptr<comm::Group> group, size_t models, const JoinOptions& options);

  /// The backward that ends is one of these models, by number. Collective, with the zeros() of other ranks.
  void announce(const std::vector<size_t>& models);
  /// CollectiveError where JoinOptions ask for it.
  void conclude() const;

  /// Of the backward that ends: this rank has no data for it.
  bool is_shadow() const { return is_shadow_; }
  bool all_have_data() const { return static_cast<int64_t>(live_.size()) == group_->size(); }
  /// A rank that has data.
  int64_t first_with_data() const { return live_.empty() ? 0 : live_.front(); }
  /// What averages over all ranks are multiplied by.
  double scale() const;

 private:
  friend class Join;
  std::vector<size_t> meet(const std::vector<size_t>& models);

  const std::shared_ptr<comm::Group> group_;
  const size_t models_;
  const JoinOptions options_;
  bool is_shadow_ = false;
  std::vector<int64_t> live_;  // the ranks that have made the last backward
};

/// Joins the ranks of one loop over data of uneven length.
///
///     parallel::Join join({model}, group, {});
///     while (auto batch = next()) step(*batch);
///     join.finish();
class Join {
 public:
  /// The same models in the same order on every rank; `group` is used for nothing else meanwhile. ConfigError for a
  /// model with SyncBatchNorm: its forward waits for other ranks too, and has no shadow.
  Join(std::vector<std::shared_ptr<ParallelModel>> models, std::shared_ptr<comm::Group> group,
       const JoinOptions& options);
  /// The models are as they were. Waits for nobody.
  ~Join();
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  /// This rank's data has ended: returns when that of all has. The models' parameters and buffers are those of one rank
  /// then, gradients undefined where this rank's data ended earlier.
  void finish();
  /// After finish(): the rank whose models all have; nothing when all ranks have made as many steps.
  std::optional<int64_t> source() const;

 private:
  const std::vector<std::shared_ptr<ParallelModel>> models_;
  const std::shared_ptr<JoinedRanks> ranks_;
};

}  // namespace parallel
}  // namespace paceline
