// SyncBatchNorm: batch normalisation over the batches of all ranks.
//
// torch::nn::BatchNorm cannot get this behaviour from outside, since its forward is not virtual and a model holds it by
// its concrete type. So a model uses these modules instead. Parameters, buffers and options are BatchNorm's, so
// checkpoints are interchangeable. DataParallel::attach binds a model's SyncBatchNorm modules to a separate group.
// Without a group, in a world of one, and in evaluation they compute what BatchNorm computes. Statistics are in float32
// at least (as BatchNorm's), weighted by each rank's number of samples; a rank with an empty batch takes part too.
// There are no second-order gradients: a backward through gradients that were made with create_graph throws UsageError.
// Threading: as any module; in training forward and backward are collective.
#pragma once

#include <torch/torch.h>

#include <memory>

#include "paceline/comm/group.h"

namespace paceline::parallel {

/// What DataParallel::attach looks for.
class SynchronizesBatch {
 public:
  virtual ~SynchronizesBatch() = default;
  void set_group(std::shared_ptr<comm::Group> group) { group_ = std::move(group); }

 protected:
  std::shared_ptr<comm::Group> group_;
};

/// Normalises `input` (N, C, …) per channel over the batches of all ranks of `group`, and updates the running
/// statistics in place when they are defined. Differentiable in input, weight and bias (which may be undefined).
torch::Tensor sync_batch_norm(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
                              const torch::Tensor& running_mean, const torch::Tensor& running_var, double momentum,
                              double eps, const std::shared_ptr<comm::Group>& group);

}  // namespace paceline::parallel

namespace paceline::nn {

/// D: the number of dimensions of the input besides batch and channels, 1 to 3 (1 also accepts none).
///
///     struct NetImpl : torch::nn::Module {
///       torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(3, 64, 3));
///       paceline::nn::SyncBatchNorm2d norm = register_module("norm", paceline::nn::SyncBatchNorm2d(64));
///       torch::Tensor forward(torch::Tensor x) { return norm(conv(x)).relu(); }
///     };
template <size_t D, class Derived>
class SyncBatchNormImplBase : public torch::nn::BatchNormImplBase<D, Derived>, public parallel::SynchronizesBatch {
 public:
  // NOLINTBEGIN(bugprone-crtp-constructor-accessibility): Derived inherits them, which needs them public.
  /// `num_features`: channels of the input, its second dimension.
  explicit SyncBatchNormImplBase(int64_t num_features)
      : SyncBatchNormImplBase(torch::nn::BatchNormOptions(num_features)) {}
  /// eps, momentum, affine and track_running_stats are those of torch::nn::BatchNorm, with its defaults.
  explicit SyncBatchNormImplBase(const torch::nn::BatchNormOptions& options)
      : torch::nn::BatchNormImplBase<D, Derived>(options) {}
  // NOLINTEND(bugprone-crtp-constructor-accessibility)

  /// Collective in training, as is its backward: every rank must call it equally often. Throws CollectiveError if a
  /// rank does not.
  torch::Tensor forward(const torch::Tensor& input) {
    const bool synchronised = this->is_training() && group_ != nullptr && group_->size() > 1;
    if (!synchronised) return torch::nn::BatchNormImplBase<D, Derived>::forward(input);
    this->_check_input_dim(input);
    double momentum = this->options.momentum().value_or(0.0);
    if (this->options.track_running_stats()) {
      this->num_batches_tracked.add_(1);
      if (!this->options.momentum()) momentum = 1.0 / this->num_batches_tracked.template item<double>();
    }
    return parallel::sync_batch_norm(input, this->weight, this->bias, this->running_mean, this->running_var, momentum,
                                     this->options.eps(), group_);
  }

  /// As in `std::cout << module`.
  void pretty_print(std::ostream& stream) const override {
    stream << "paceline::nn::SyncBatchNorm" << D << "d(" << this->options.num_features() << ")";
  }

 protected:
  /// Throws for an input with another number of dimensions.
  void _check_input_dim(const torch::Tensor& input) override {
    const auto dimensions = static_cast<size_t>(input.dim());
    TORCH_CHECK(dimensions == D + 2 || (D == 1 && dimensions == 2), "SyncBatchNorm", D, "d takes ", D + 2,
                "D input; got ", input.dim(), "D input");
  }
};

#define PACELINE_SYNC_BATCH_NORM_(D)                                                         \
  class SyncBatchNorm##D##dImpl : public SyncBatchNormImplBase<D, SyncBatchNorm##D##dImpl> { \
   public:                                                                                   \
    using SyncBatchNormImplBase<D, SyncBatchNorm##D##dImpl>::SyncBatchNormImplBase;          \
  };                                                                                         \
  TORCH_MODULE(SyncBatchNorm##D##d)

PACELINE_SYNC_BATCH_NORM_(1);
PACELINE_SYNC_BATCH_NORM_(2);
PACELINE_SYNC_BATCH_NORM_(3);

}  // namespace paceline::nn
