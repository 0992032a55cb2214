// ParallelModel: a model as its parallel strategy trains it on this rank. What the rest of Paceline knows of
// strategies.
//
// Threading: a model is trained by one thread; calls that say "collective" are made by every rank in the same order.
// Ownership: keep it as long as the model trains; it does not keep the module, only its tensors. Errors:
// CollectiveError, also from backward.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "paceline/comm/group.h"
#include "paceline/state/stateful.h"

namespace paceline::parallel {

class JoinedRanks;

class ParallelModel {
 public:
  /// The parameters that `module` has now are this object's.
  ParallelModel(const std::shared_ptr<torch::nn::Module>& module, std::shared_ptr<comm::Group> group);
  virtual ~ParallelModel();
  ParallelModel(const ParallelModel&) = delete;
  ParallelModel& operator=(const ParallelModel&) = delete;

  /// The one that trains `parameter` in this process, null when none does. Valid as long as the model trains.
  static ParallelModel* of(const torch::Tensor& parameter);

  /// Null when nobody holds the module any more.
  std::shared_ptr<torch::nn::Module> module() const { return module_.lock(); }
  /// Whether somebody holds the module or a module in it, which may then still train.
  bool is_held() const;
  /// Nobody holds it, and this object goes: from here on a gradient of its parameters is a UsageError in backward.
  virtual void let_go() {}
  const std::shared_ptr<comm::Group>& group() const { return group_; }

  /// Voids the step: gradients become undefined, at once or, during backward, at its end, so that optimizer.step() does
  /// nothing. From the training thread or from inside backward. Not collective: every rank must void the same step.
  virtual void void_step() = 0;
  /// The norm of the model's whole gradients, from `norm`, that of what this rank holds of them; `norm_type` as
  /// torch::linalg_vector_norm has it. With infinity and a tensor of 0 or 1 it is "on any rank". Collective where ranks
  /// hold parts; `norm` itself where each rank holds all.
  virtual torch::Tensor norm_over_ranks(const torch::Tensor& norm, double norm_type) = 0;

  /// From now on the end of every `steps`-th synchronised backward compares what the ranks hold: CollectiveError naming
  /// the first parameter that differs, on every rank. 0 ends it. The same on every rank; nothing to do where ranks hold
  /// different weights by design.
  virtual void check_ranks_every(int64_t steps) = 0;

  /// Ranks are lost, and those that are left have met in `group`: the model trains over that, by what attach() has
  /// hooked. Between backwards, also after one that threw. Collective among the ranks of `group`, for all models in the
  /// order of their preparation; when it throws, it can be called again. The interrupted step is void, with all
  /// gradients. Weights stay as they are: a failure may have let some ranks make a step that others have not. So the
  /// next synchronised backward compares them, as check_ranks_every() has it, and until then they can be loaded or
  /// copied. UsageError inside Join. The module must be there.
  virtual void rebuild(std::shared_ptr<comm::Group> group) = 0;

  /// What a checkpoint holds of the model, and whether one rank's state stands for all. The same for its optimizers.
  /// The module must be there.
  virtual Placement placement() const = 0;
  virtual StateDict state_dict() const = 0;
  /// ConfigError naming what is missing, left over, or of another shape.
  virtual void load_state_dict(const StateDict& state) = 0;

  // What Join asks of models that wait for other ranks in backward; the others have nothing to do.

  /// ConfigError for a model that waits for other ranks in ways that have no shadow.
  virtual void check_joinable() const {}
  /// From now on `ranks`, null for none, are told of synchronised backwards: of model `number`.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): overriders keep it
  virtual void set_join(std::shared_ptr<JoinedRanks> ranks, size_t number) {}
  /// Appends what a backward of zeros starts from that takes part in the other ranks' backward.
  virtual void begin_shadow(std::vector<torch::Tensor>& parameters, std::vector<torch::Tensor>& zeros) {}
  /// Parameters and buffers become those of that rank. Collective.
  virtual void copy_from(int64_t rank) {}

 protected:
  const std::weak_ptr<torch::nn::Module> module_;
  std::vector<std::weak_ptr<torch::nn::Module>> parts_;  // the module and those in it, at the beginning
  std::shared_ptr<comm::Group> group_;

 private:
  friend class NoSync;
  virtual void enter_no_sync() = 0;
  virtual void leave_no_sync() = 0;
};

/// While it lives, backward accumulates gradients locally; the next synchronised backward averages what has
/// accumulated. Backward must run inside the scope. Scopes nest.
///
///     for (int64_t i = 0; i < 4; ++i) {
///       std::optional<NoSync> local;
///       if (i < 3) local.emplace(parallel_model);
///       loss(batch[i]).backward();
///     }
///     optimizer.step();
class NoSync {
 public:
  /// Begins the scope; it ends with this object.
  explicit NoSync(std::shared_ptr<ParallelModel> model);
  /// The scope is then the new object's.
  NoSync(NoSync&& other) noexcept = default;
  NoSync& operator=(NoSync&&) = delete;
  ~NoSync();

 private:
  std::shared_ptr<ParallelModel> model_;
};

}  // namespace paceline::parallel
