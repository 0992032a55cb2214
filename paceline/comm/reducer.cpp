#include "paceline/comm/reducer.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unordered_map>
#include <utility>

#include "paceline/comm/compression_internal.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {
namespace {

using ProcessGroupPointer = c10::intrusive_ptr<c10d::ProcessGroup>;

// As PyTorch: one bucket for the first backward, whose order of gradients then decides the real ones.
std::vector<std::vector<size_t>> first_buckets(const std::vector<torch::Tensor>& parameters,
                                               const std::vector<bool>& expect_sparse) {
  auto [buckets, limits] =
      c10d::compute_bucket_assignment_by_size(parameters, {std::numeric_limits<int64_t>::max()}, expect_sparse);
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

// c10d's reducer says nothing when it still waits for gradients at the end of a backward; what it expects is protected,
// as its group and buckets are.
class WatchedReducer final : public c10d::Reducer {
 public:
  using Reducer::Reducer;
  bool is_finished() const { return !expect_autograd_hooks_; }
  const ProcessGroupPointer& process_group() const { return process_group_; }

  // c10d itself keeps the buckets until the next order is known: in memory of the old group, and in an order that ranks
  // may disagree about which were lost while they agreed.
  void rebuild(const ProcessGroupPointer& process_group) {
    update_process_group(process_group);
    reset_state();
    for (const torch::Tensor& parameter : params_) parameter.mutable_grad().reset();  // it may be a view of a bucket
    const std::lock_guard lock(mutex_);
    initialize_buckets(first_buckets(params_, expect_sparse_gradients_));
  }
};

// The constructor grows with LibTorch's versions (2.12: batched_grad_copy, 2.15: lazy_bucket_allocation); these twelve
// arguments are common to 2.11–2.15, the rest has defaults.
std::unique_ptr<WatchedReducer> make_reducer(const ProcessGroupPointer& process_group,
                                             std::vector<torch::Tensor> parameters,
                                             const std::vector<std::string>& names, std::vector<bool> expect_sparse,
                                             const ReducerOptions& options) {
  std::unordered_map<size_t, std::string> names_by_index;
  for (size_t i = 0; i < names.size(); ++i) names_by_index[i] = names[i];
  auto buckets = first_buckets(parameters, expect_sparse);
  return std::make_unique<WatchedReducer>(
      std::move(parameters), std::move(buckets), process_group, std::move(expect_sparse), options.bucket_bytes,
      /*find_unused_parameters=*/false, options.gradient_as_bucket_view, std::move(names_by_index),
      options.first_bucket_bytes, /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      /*bucket_bytes_cap_list=*/std::vector<int64_t>{});
}

ProcessGroupPointer process_group_of(const Group& group) {
  return ProcessGroupPointer::reclaim_copy(group.process_group());
}

class C10dReducer final : public GradientReducer {
 public:
  C10dReducer(std::shared_ptr<Group> group, std::unique_ptr<WatchedReducer> reducer, torch::Device device,
              bool static_graph)
      : group_(std::move(group)), reducer_(std::move(reducer)), device_(device), static_graph_(static_graph) {}

  void begin_backward() override {
    reducer_->prepare_for_forward();
    reducer_->prepare_for_backward({});
  }
  void mark_arrived(size_t index) override { reducer_->autograd_hook(index); }
  void reduce_all() override { reducer_->delay_all_reduce(); }
  bool is_finished() const override { return reducer_->is_finished(); }
  void adopt_order() override {
    FailureReporter(group_->rank(), group_->size()).run("ordering gradients", [&] { reducer_->rebuild_buckets(); });
  }
  void forget_broken() override { reducer_->reset_state(); }
  void wait_for_broken() override {
    group_->barrier();
    if (device_.is_cuda()) {
      // NCCL's collectives run one after the other on a stream of theirs: behind one more, those are over.
      torch::Tensor last = torch::zeros({1}, device_);
      group_->all_reduce(last, ReduceOp::sum);
      last.item();
    }
  }
  void rebuild(std::shared_ptr<Group> group) override {
    if (static_graph_ || group->size() == 1) {
      throw UsageError(std::string("a gradient reducer goes on over another group ") +
                       (static_graph_ ? "without static_graph only" : "of several ranks only") +
                       ": make another one, or none");
    }
    reducer_->rebuild(process_group_of(*group));
    group_ = std::move(group);
  }

 private:
  std::shared_ptr<Group> group_;
  const std::unique_ptr<WatchedReducer> reducer_;
  const torch::Device device_;
  const bool static_graph_;
};

}  // namespace

std::unique_ptr<GradientReducer> GradientReducer::create(std::shared_ptr<Group> group,
                                                         std::vector<torch::Tensor> parameters,
                                                         const std::vector<std::string>& names,
                                                         std::vector<bool> expect_sparse,
                                                         const ReducerOptions& options) {
  const torch::Device device = parameters.front().device();
  auto reducer =
      make_reducer(process_group_of(*group), std::move(parameters), names, std::move(expect_sparse), options);
  if (options.static_graph) reducer->set_static_graph();
  if (options.compression != Compression::none) {
    reducer->register_comm_hook(
        make_compression_hook([of = reducer.get()] { return of->process_group(); }, options.compression));
  }
  return std::make_unique<C10dReducer>(std::move(group), std::move(reducer), device, options.static_graph);
}

}  // namespace paceline::comm
