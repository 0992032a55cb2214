#include "paceline/parallel/ddp/data_parallel.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <unordered_set>
#include <utility>

#include "paceline/comm/reducer.h"
#include "paceline/core/error.h"
#include "paceline/parallel/ddp/backward_end.h"
#include "paceline/parallel/ddp/gradients.h"
#include "paceline/parallel/ddp/model_agreement.h"
#include "paceline/parallel/ddp/model_reducer.h"
#include "paceline/parallel/ddp/requirements.h"
#include "paceline/parallel/ddp/sync_batch_norm.h"
#include "paceline/state/module_state.h"

namespace paceline::parallel {
namespace {

using torch::autograd::variable_list;

// Of attach(): every rank calls it for the same models in the same order.
std::atomic<int64_t> next_place{0};

class GradientHook final : public torch::autograd::FunctionPreHook {
 public:
  using Arrives = std::function<torch::Tensor(const torch::Tensor& gradient)>;
  explicit GradientHook(Arrives arrives) : arrives_(std::move(arrives)) {}
  variable_list operator()(const variable_list& gradients) override { return {arrives_(gradients.at(0))}; }

 private:
  const Arrives arrives_;
};

std::vector<NamedTensor> those(const std::vector<NamedTensor>& parameters, bool trained) {
  std::vector<NamedTensor> result;
  for (const auto& parameter : parameters) {
    if (parameter.tensor.requires_grad() == trained) result.push_back(parameter);
  }
  return result;
}

class ModuleDataParallel;

// Averaged by nobody, it would let the ranks' weights drift apart.
[[noreturn]] void refuse_gradient() {
  throw UsageError(
      "backward reaches a parameter of a model that prepare_model() has made ready and of which nobody holds the "
      "module, or one in it, any more: its gradients are not averaged. Keep the module as long as it trains");
}

// What happens in one backward. Its end owns it: when backward throws, this is gone, so that the next first gradient
// begins anew.
struct Backward final : EndOfModel {
  Backward(std::shared_ptr<ModuleDataParallel> of, size_t parameters)
      : model(std::move(of)), reached(parameters, false) {}
  std::pair<std::shared_ptr<JoinedRanks>, size_t> join() const override;
  void begin() override;
  void catch_up() override;
  void finish() override;

  const std::shared_ptr<ModuleDataParallel> model;  // whose reducer autograd calls back at the end
  std::vector<bool> reached;
  std::vector<size_t> order;  // in which they were
  bool synchronised = false;
  bool voided = false;
  bool after_broken = false;  // the reducer is armed at the end, not by the first gradient
};

class ModuleDataParallel final : public DataParallel, public std::enable_shared_from_this<ModuleDataParallel> {
 public:
  ModuleDataParallel(const std::shared_ptr<torch::nn::Module>& module, std::shared_ptr<comm::Group> group,
                     const DdpOptions& options, std::shared_ptr<StepLedger> ledger)
      : DataParallel(module, std::move(group)),
        options_(options),
        ledger_(std::move(ledger)),
        all_parameters_(parameters_of(*module)),
        parameters_(those(all_parameters_, /*trained=*/true)),
        frozen_(those(all_parameters_, /*trained=*/false)),
        sparse_(expect_sparse(*module, parameters_)),
        used_(torch::zeros({finds_unused() ? std::ssize(parameters_) : 0}, torch::kUInt8)),
        expected_(parameters_.size(), true),
        reached_unaveraged_(parameters_.size(), false) {
    take_buffers(*module);
  }

  void start(const torch::nn::Module& module);
  void begin_end(Backward& backward);
  void catch_up(const Backward& backward);
  void finish(const Backward& backward);
  void void_step() override;
  void let_go() override { *is_gone_ = group_->size() > 1; }
  // Every rank holds the averages.
  torch::Tensor norm_over_ranks(const torch::Tensor& norm, double) override { return norm; }
  void check_ranks_every(int64_t steps) override { check_ranks_every_ = steps; }
  void rebuild(std::shared_ptr<comm::Group> group) override;
  void check_joinable() const override;
  void set_join(std::shared_ptr<JoinedRanks> ranks, size_t number) override { join_ = {std::move(ranks), number}; }
  const std::pair<std::shared_ptr<JoinedRanks>, size_t>& join() const { return join_; }
  void begin_shadow(std::vector<torch::Tensor>& parameters, std::vector<torch::Tensor>& zeros) override;
  void copy_from(int64_t rank) override;
  Placement placement() const override { return Placement::replicated; }
  StateDict state_dict() const override { return module_state(*module()); }
  void load_state_dict(const StateDict& state) override { load_module_state(*module(), state); }

 private:
  void enter_no_sync() override { ++no_sync_depth_; }
  void leave_no_sync() override { --no_sync_depth_; }

  void bind_batch_norms(const torch::nn::Module& module);
  void hook_parameters();
  void prepare_reducer(Backward& backward);
  void gradient_arrives(size_t index);
  void begin_backward();
  bool counts() const { return options_.static_graph && !counted_; }
  bool is_shadow() const { return join_.first != nullptr && join_.first->is_shadow(); }
  bool finds_unused() const { return options_.find_unused_parameters && !options_.static_graph; }
  void check_reached(const Backward& backward) const;
  void note_used();
  void mark_unreached(const Backward& backward);
  void check_unaveraged();
  void check_finished() const;
  void check_accumulator(size_t index) const;
  void check_that_all_are_known();
  bool ranks_are_due() const;
  void check_ranks();
  void take_buffers(const torch::nn::Module& module);
  void drop_unused();
  void broadcast_buffers(int64_t root);

  const int64_t place_ = next_place++;
  const DdpOptions options_;
  const std::shared_ptr<StepLedger> ledger_;
  const std::vector<NamedTensor> all_parameters_;
  const std::vector<NamedTensor> parameters_;  // of these, those that are trained
  const std::vector<NamedTensor> frozen_;      // and the others
  const std::vector<bool> sparse_;             // which of parameters_ get sparse gradients
  std::vector<torch::Tensor> buffers_;
  std::vector<torch::Tensor> sent_buffers_;  // the same, as broadcast_buffers() writes them
  std::vector<size_t> statistics_;           // places in them
  torch::Tensor used_;  // find_unused_parameters: 1 where parameters_ have gradients at the end of a backward, uint8
  // Kept, because a parameter holds its accumulator only as long as somebody else does.
  std::vector<decltype(torch::autograd::impl::grad_accumulator(torch::Tensor()))> accumulators_;
  std::unique_ptr<comm::GradientReducer> reducer_;  // null before the first backward that is averaged

  const std::shared_ptr<std::atomic<bool>> is_gone_ = std::make_shared<std::atomic<bool>>(false);
  bool has_sync_batch_norm_ = false;
  std::pair<std::shared_ptr<JoinedRanks>, size_t> join_;  // null outside Join
  std::weak_ptr<Backward> backward_;
  static constexpr int kNoTask = -2;  // -1: no backward is under way
  int voided_task_ = kNoTask;
  int no_sync_depth_ = 0;
  bool unfinished_ = false;  // a synchronised backward has begun and not come to its end
  bool counted_ = false;     // static graph: the first backward is over
  int64_t check_ranks_every_ = 0;
  bool is_rebuilt_ = false;  // and no synchronised backward has ended since then
  int64_t steps_ = 0;        // synchronised backwards
  std::vector<bool> expected_;
  std::vector<bool> reached_unaveraged_;  // by backwards in no_sync since the last that was averaged
};

void ModuleDataParallel::start(const torch::nn::Module& module) {
  if (options_.sync_batch_norm) check_batch_norms(module);
  if (group_->size() > 1) {
    check_agreement(module, *group_);
    group_->broadcast_coalesced(tensors_of(all_parameters_), 0);
    group_->broadcast_coalesced(buffers_, 0);
    bind_batch_norms(module);
    check_one_device(parameters_);
  }
  hook_parameters();
}

// To a group of their own: when their collectives come is decided by the order of the graph's nodes, which is not that
// of the reducer's buckets.
void ModuleDataParallel::bind_batch_norms(const torch::nn::Module& module) {
  std::shared_ptr<comm::Group> group;
  for (const auto& child : module.modules()) {
    auto* const batch_norm = dynamic_cast<SynchronizesBatch*>(child.get());
    if (batch_norm == nullptr) continue;
    if (group == nullptr) group = group_->duplicate();
    batch_norm->set_group(group);
    has_sync_batch_norm_ = true;
  }
}

void ModuleDataParallel::hook_parameters() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameters_[i].tensor));
    accumulators_.back()->add_pre_hook(
        std::make_unique<GradientHook>([self = weak_from_this(), i, gone = is_gone_](const auto& gradient) {
          const auto alive = self.lock();
          if (!alive && *gone) refuse_gradient();
          if (!alive) return gradient;
          alive->gradient_arrives(i);
          return with_strides_of(alive->parameters_[i].tensor, gradient);
        }));
    // A hook of the parameter's own, which stays when the parameter gets another accumulator.
    parameters_[i].tensor.register_hook([self = weak_from_this(), i](const torch::Tensor&) {
      if (const auto alive = self.lock()) alive->check_accumulator(i);
    });
  }
}

void ModuleDataParallel::gradient_arrives(size_t index) {
  if (backward_.expired()) begin_backward();
  const auto backward = backward_.lock();
  backward->reached[index] = true;
  backward->order.push_back(index);
  if (!backward->synchronised) reached_unaveraged_[index] = true;
}

// Nothing here may wait for another rank, which may be at the first gradient of another model.
void ModuleDataParallel::begin_backward() {
  auto backward = std::make_shared<Backward>(shared_from_this(), parameters_.size());
  backward->voided = torch::autograd::get_current_graph_task_id() == voided_task_;
  backward->synchronised = group_->size() > 1 && no_sync_depth_ == 0;
  if (backward->synchronised) prepare_reducer(*backward);
  backward_ = backward;
  end_backward_with(place_, backward);
}

void ModuleDataParallel::prepare_reducer(Backward& backward) {
  // For a static graph the reducer counts gradients in every backward that it lives to see, also in those that are not
  // averaged and in those that break: it is made for the first that is averaged, and made again when that has broken.
  if (counts() || reducer_ == nullptr) {
    reducer_.reset();  // its hooks, before the new one's
    reducer_ = make_reducer(parameters_, sparse_, group_, options_);
  } else if (unfinished_) {
    reducer_->forget_broken();
    if (options_.gradient_as_bucket_view) leave_buckets(parameters_);
    backward.after_broken = true;
  }
  unfinished_ = true;
  if (!backward.after_broken) reducer_->begin_backward();
}

void ModuleDataParallel::begin_end(Backward& backward) {
  if (!backward.synchronised) return;
  if (counts()) expected_ = backward.reached;
  check_unaveraged();
  check_reached(backward);
  note_used();
  if (!counts() && !backward.after_broken) mark_unreached(backward);
}

// Be it of an earlier backward.
void ModuleDataParallel::note_used() {
  auto* const used = used_.mutable_data_ptr<uint8_t>();
  for (int64_t i = 0; i < used_.numel(); ++i) {
    used[i] = parameters_[static_cast<size_t>(i)].tensor.grad().defined() && !is_shadow() ? 1 : 0;
  }
}

void ModuleDataParallel::catch_up(const Backward& backward) {
  if (!backward.synchronised) return;
  if (counts()) {
    reducer_->reduce_all();
    counted_ = true;
  } else if (backward.after_broken) {
    reducer_->wait_for_broken();
    reducer_->begin_backward();
    for (const size_t index : backward.order) reducer_->mark_arrived(index);
    mark_unreached(backward);
  }
}

void ModuleDataParallel::check_reached(const Backward& backward) const {
  if (finds_unused()) return;
  std::vector<std::string> missing;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!backward.reached[i] && expected_[i]) missing.push_back(parameters_[i].name);
  }
  if (missing.empty()) return;
  throw CollectiveError("backward on rank " + std::to_string(group_->rank()) + " of " + std::to_string(group_->size()) +
                        " did not reach these parameters: " + quoted(missing) +
                        (options_.static_graph ? "; with static_graph every backward reaches what the first reached"
                                               : "; set find_unused_parameters, or let them take part in the loss"));
}

void ModuleDataParallel::mark_unreached(const Backward& backward) {
  if (!finds_unused()) return;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!backward.reached[i]) reducer_->mark_arrived(i);
  }
}

// What only backwards in no_sync reach, a static graph's reducer takes for unused: it would stay each rank's own.
void ModuleDataParallel::check_unaveraged() {
  const std::vector<bool> reached = std::exchange(reached_unaveraged_, std::vector<bool>(parameters_.size(), false));
  if (!options_.static_graph) return;
  std::vector<std::string> missing;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (reached[i] && !expected_[i]) missing.push_back(parameters_[i].name);
  }
  if (missing.empty()) return;
  throw CollectiveError(
      "backward on rank " + std::to_string(group_->rank()) + " of " + std::to_string(group_->size()) +
      " averages no gradient of these parameters, which a backward in no_sync has reached: " + quoted(missing) +
      "; with static_graph the averaged backward reaches what all others reach: let it, or leave "
      "static_graph out");
}

void ModuleDataParallel::finish(const Backward& backward) {
  if (backward.synchronised) {
    check_finished();
    if (finds_unused()) drop_unused();
    reducer_->adopt_order();
    if (options_.gradient_as_bucket_view) unview_gradients(parameters_);
    const JoinedRanks* const ranks = join_.first.get();
    if (ranks != nullptr && ranks->scale() != 1) scale_gradients(parameters_, ranks->scale());
    if (options_.broadcast_buffers) broadcast_buffers(ranks == nullptr ? 0 : ranks->first_with_data());
    unfinished_ = false;
    ++steps_;
    check_that_all_are_known();
    const bool all_step = ranks == nullptr || ranks->all_have_data();
    if (all_step && ranks_are_due()) {
      check_ranks();
      is_rebuilt_ = false;
    }
  }
  backward_.reset();
  if (backward.voided) drop_gradients(all_parameters_);
}

std::pair<std::shared_ptr<JoinedRanks>, size_t> Backward::join() const {
  return synchronised ? model->join() : std::pair<std::shared_ptr<JoinedRanks>, size_t>();
}

void Backward::begin() {
  model->begin_end(*this);
}

void Backward::catch_up() {
  model->catch_up(*this);
}

void Backward::finish() {
  model->finish(*this);
}

// Gradients that are not averaged let the ranks' models drift apart, and nobody would see it.
void ModuleDataParallel::check_finished() const {
  if (reducer_->is_finished()) return;
  throw CollectiveError("backward on rank " + std::to_string(group_->rank()) + " of " + std::to_string(group_->size()) +
                        " has ended, but its gradients are not averaged. " +
                        (options_.static_graph
                             ? "With static_graph every backward uses each parameter as often as the first did: let "
                               "it, or leave static_graph out"
                             : "A backward inside of this one (re-entrant checkpointing) does that: compute the "
                               "loss's gradients in one backward. Is there none, please report it, with the model"));
}

void ModuleDataParallel::check_accumulator(size_t index) const {
  const NamedTensor& parameter = parameters_[index];
  if (torch::autograd::impl::try_get_grad_accumulator(parameter.tensor) == accumulators_[index]) return;
  throw UsageError("the parameter \"" + parameter.name +
                   "\" got another type or device after prepare_model() (model->to(…)), and its gradients would not be "
                   "averaged any more: convert the model first, then prepare it");
}

// Those of the model as it was are looked at in every step; layers that it has got since then take a walk through it,
// which is made seldom.
void ModuleDataParallel::check_that_all_are_known() {
  const auto refuse = [](const std::string& name) {
    throw UsageError("the parameter \"" + name +
                     "\" has a gradient, but was added or made trainable after prepare_model(): its gradients are not "
                     "averaged. Call prepare_model() once more when the model has changed, before its next backward");
  };
  const auto learns = [](const torch::Tensor& tensor) { return tensor.requires_grad() && tensor.grad().defined(); };
  for (const auto& parameter : frozen_) {
    if (learns(parameter.tensor)) refuse(parameter.name);
  }
  constexpr int64_t kSeldom = 64;
  if (const bool due = std::has_single_bit(static_cast<uint64_t>(steps_)) || steps_ % kSeldom == 0; !due) return;
  const auto held = module();
  if (held == nullptr) return;
  std::unordered_set<const c10::TensorImpl*> known;
  for (const auto& parameter : all_parameters_) known.insert(parameter.tensor.unsafeGetTensorImpl());
  for (const auto& parameter : parameters_of(*held)) {
    if (learns(parameter.tensor) && !known.contains(parameter.tensor.unsafeGetTensorImpl())) refuse(parameter.name);
  }
  take_buffers(*held);
}

bool ModuleDataParallel::ranks_are_due() const {
  return is_rebuilt_ || (check_ranks_every_ > 0 && steps_ % check_ranks_every_ == 0);
}

void ModuleDataParallel::check_ranks() {
  const auto difference = find_difference(group_->all_gather(checksums(tensors_of(all_parameters_))));
  if (!difference) return;
  std::string ranks;
  for (const int64_t rank : difference->ranks) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  throw CollectiveError("the ranks hold different weights: \"" + all_parameters_[difference->place].name +
                        "\" on rank " + ranks + " is not rank 0's, in synchronised backward " + std::to_string(steps_) +
                        " of the model. Something changes weights on some ranks only: an optimizer that not every rank "
                        "steps, other learning rates, weights that are loaded or drawn after prepare_model(), a step "
                        "that only some ranks had made when another was lost");
}

// The reducer gives zeros to parameters that no rank has used. They shall stay without gradient, as in one process: an
// optimizer with momentum or weight decay would move them.
void ModuleDataParallel::drop_unused() {
  group_->all_reduce(used_, comm::ReduceOp::max);
  const auto* const anywhere = used_.const_data_ptr<uint8_t>();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (anywhere[i] == 0) torch::Tensor(parameters_[i].tensor).mutable_grad().reset();
  }
}

void ModuleDataParallel::take_buffers(const torch::nn::Module& module) {
  buffers_.clear();
  statistics_.clear();
  for (const auto& [name, tensor] : buffers_of(module)) {
    if (name.ends_with("running_mean") || name.ends_with("running_var") || name.ends_with("num_batches_tracked")) {
      statistics_.push_back(buffers_.size());
    }
    buffers_.push_back(tensor);
  }
  sent_buffers_ = buffers_;
}

// Running statistics behind autograd's back, as batch normalisation itself writes them: a graph that has saved them,
// and of which another backward is still to come, must not take them for changed. Other buffers it must: gradients may
// depend on their values.
void ModuleDataParallel::broadcast_buffers(int64_t root) {
  for (const size_t i : statistics_) sent_buffers_[i] = buffers_[i].variable_data();
  group_->broadcast_coalesced(sent_buffers_, root);
}

void ModuleDataParallel::check_joinable() const {
  if (!has_sync_batch_norm_) return;
  throw ConfigError(
      "join() was given a model with SyncBatchNorm, whose forward waits for the batches of all ranks: give every rank "
      "as many batches (empty ones count), or use a normalisation that needs no other rank");
}

void ModuleDataParallel::begin_shadow(std::vector<torch::Tensor>& parameters, std::vector<torch::Tensor>& zeros) {
  if (counts()) {
    throw CollectiveError("the data of rank " + std::to_string(group_->rank()) +
                          " has ended before its first backward, which a model with static_graph learns from: give "
                          "every rank a batch, or leave static_graph out");
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!expected_[i]) continue;
    torch::Tensor parameter = parameters_[i].tensor;
    parameter.mutable_grad().reset();  // of this rank's last step
    parameters.push_back(parameter);
    zeros.push_back(sparse_[i] ? torch::zeros(parameter.sizes(), parameter.options().layout(torch::kSparse))
                               : torch::zeros_like(parameter));
  }
}

void ModuleDataParallel::copy_from(int64_t rank) {
  group_->broadcast_coalesced(tensors_of(all_parameters_), rank);
  group_->broadcast_coalesced(buffers_, rank);
}

void ModuleDataParallel::rebuild(std::shared_ptr<comm::Group> group) {
  if (join_.first != nullptr) {
    throw UsageError(
        "rebuild() was called for a model inside join(), which counts the ranks that it began with: end it");
  }
  group_ = group->duplicate();
  drop_gradients(all_parameters_);
  unfinished_ = false;
  reached_unaveraged_.assign(parameters_.size(), false);
  if (options_.static_graph || group_->size() == 1) {
    reducer_.reset();  // a static graph is learnt anew
    counted_ = false;
    expected_.assign(parameters_.size(), true);
  } else if (reducer_ != nullptr) {
    reducer_->rebuild(group_);
  }
  if (has_sync_batch_norm_) bind_batch_norms(*module());
  is_rebuilt_ = true;
}

void ModuleDataParallel::void_step() {
  if (ledger_ != nullptr) ledger_->void_step();
  if (const auto backward = backward_.lock()) {
    backward->voided = true;
  } else {
    voided_task_ = torch::autograd::get_current_graph_task_id();  // in a backward before its first gradient
    drop_gradients(all_parameters_);
  }
}

}  // namespace

std::shared_ptr<DataParallel> DataParallel::attach(const std::shared_ptr<torch::nn::Module>& module,
                                                   const std::shared_ptr<comm::Group>& group, const DdpOptions& options,
                                                   std::shared_ptr<StepLedger> ledger) {
  options.validate();
  auto data_parallel = std::make_shared<ModuleDataParallel>(module, group->duplicate(), options, std::move(ledger));
  data_parallel->start(*module);
  return data_parallel;
}

}  // namespace paceline::parallel
