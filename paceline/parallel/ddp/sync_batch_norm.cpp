#include "paceline/parallel/ddp/sync_batch_norm.h"

#include <algorithm>
#include <utility>

#include "paceline/core/error.h"

namespace paceline::parallel {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// How an autograd node keeps a group: a capsule holds only intrusive pointers.
struct GroupHolder : torch::CustomClassHolder {
  explicit GroupHolder(std::shared_ptr<comm::Group> held) : group(std::move(held)) {}
  std::shared_ptr<comm::Group> group;
};

torch::ScalarType statistics_type(const Tensor& input) {
  return input.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

// Sum over everything but the channels, in the statistics' type.
Tensor sum_per_channel(const Tensor& values) {
  std::vector<int64_t> dimensions;
  for (int64_t i = 0; i < values.dim(); ++i) {
    if (i != 1) dimensions.push_back(i);
  }
  return values.sum(dimensions);
}

// (C) as (1, C, 1, …): against an input of `dimensions` dimensions.
Tensor along_channels(const Tensor& per_channel, int64_t dimensions) {
  std::vector<int64_t> shape(dimensions, 1);
  shape[1] = per_channel.numel();
  return per_channel.view(shape);
}

struct Statistics {
  Tensor mean;      // (C)
  Tensor variance;  // (C), biased
  double count = 0;
};

Statistics local_statistics(const Tensor& input) {
  const int64_t channels = input.size(1);
  const int64_t count = input.numel() / channels;
  Statistics statistics{input.new_zeros({channels}), input.new_zeros({channels}), static_cast<double>(count)};
  if (count == 0) return statistics;
  statistics.mean = sum_per_channel(input) / count;
  statistics.variance = sum_per_channel((input - along_channels(statistics.mean, input.dim())).square()) / count;
  return statistics;
}

// The statistics of all samples together: each rank's weigh as many samples as it has.
Statistics global_statistics(const Statistics& local, comm::Group& group) {
  const Tensor own = torch::cat({local.mean, local.variance, torch::full({1}, local.count, local.mean.options())});
  const Tensor all = torch::stack(group.all_gather(own));  // (world, 2C + 1)
  const int64_t channels = local.mean.numel();
  const Tensor counts = all.narrow(1, 2 * channels, 1);
  const Tensor means = all.narrow(1, 0, channels);
  const Tensor variances = all.narrow(1, channels, channels);
  Statistics global;
  global.count = counts.sum().item<double>();
  const Tensor weights = counts / std::max(global.count, 1.0);
  global.mean = (means * weights).sum(0);
  global.variance = ((variances + (means - global.mean).square()) * weights).sum(0);
  return global;
}

void update(const Tensor& running, const Tensor& now, double momentum) {
  if (running.defined()) Tensor(running).mul_(1 - momentum).add_(now.to(running.scalar_type()), momentum);
}

// Stands behind gradients that have none of their own: they depend on other ranks' inputs too, and autograd would see
// this rank's only. It lies on every path from them to what the norm was computed from, so that a backward to named
// inputs meets it as well.
struct NoSecondOrder final : torch::autograd::Node {
  explicit NoSecondOrder(torch::autograd::edge_list next) : Node(std::move(next)) {}
  variable_list apply(variable_list&&) override {
    throw UsageError(
        "SyncBatchNorm has no second-order gradients (a gradient penalty, or another loss made of gradients): use "
        "torch::nn::BatchNorm in such a model, or a normalisation that needs no other rank, such as LayerNorm");
  }
};

// Who owns a node depends on LibTorch's version.
template <class Owner>
Owner make_node(torch::autograd::edge_list next) {
  if constexpr (std::is_same_v<Owner, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<NoSecondOrder>(std::move(next));
  } else {
    return c10::make_intrusive<NoSecondOrder>(std::move(next));
  }
}

struct SyncBatchNormFunction : torch::autograd::Function<SyncBatchNormFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const Tensor& running_mean, const Tensor& running_var, double momentum, double eps,
                        const std::shared_ptr<comm::Group>& group) {
    const Tensor values = input.to(statistics_type(input));
    const Statistics global = global_statistics(local_statistics(values), *group);
    if (global.count > 0) {
      update(running_mean, global.mean, momentum);
      update(running_var, global.variance * (global.count / std::max(global.count - 1, 1.0)), momentum);
    }
    const Tensor inverse_deviation = (global.variance + eps).rsqrt();
    const Tensor normalised =
        (values - along_channels(global.mean, input.dim())) * along_channels(inverse_deviation, input.dim());
    Tensor output = normalised;
    if (weight.defined()) output = output * along_channels(weight, input.dim());
    if (bias.defined()) output = output + along_channels(bias, input.dim());

    context->save_for_backward({normalised, weight, inverse_deviation});
    context->saved_data["count"] = global.count;
    context->saved_data["dtype"] = static_cast<int64_t>(input.scalar_type());
    context->saved_data["bias"] = bias.defined() ? static_cast<int64_t>(bias.scalar_type()) : int64_t{-1};
    context->saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<GroupHolder>(group));
    return output.to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    variable_list result = first_order(context, gradients[0]);
    if (!torch::GradMode::is_enabled()) return result;  // without create_graph
    torch::autograd::edge_list next = torch::autograd::get_current_node()->next_edges();
    if (gradients[0].requires_grad()) next.push_back(torch::autograd::impl::gradient_edge(gradients[0]));
    const auto refuses = make_node<decltype(torch::autograd::get_current_node())>(std::move(next));
    for (Tensor& gradient : result) {
      if (gradient.defined()) torch::autograd::create_gradient_edge(gradient, refuses);
    }
    return result;
  }

 private:
  static variable_list first_order(AutogradContext* context, const Tensor& output_gradient) {
    const torch::NoGradGuard no_grad;
    const auto saved = context->get_saved_variables();
    const Tensor &normalised = saved[0], &weight = saved[1], &inverse_deviation = saved[2];
    const auto holder = c10::static_intrusive_pointer_cast<GroupHolder>(context->saved_data["group"].toCapsule());
    const Tensor gradient = output_gradient.to(normalised.scalar_type());
    const int64_t dimensions = gradient.dim();
    const int64_t channels = inverse_deviation.numel();

    const Tensor bias_gradient = sum_per_channel(gradient);
    const Tensor weight_gradient = sum_per_channel(gradient * normalised);
    Tensor sums = torch::cat({bias_gradient, weight_gradient});
    holder->group->all_reduce(sums, comm::ReduceOp::sum);
    sums /= std::max(context->saved_data["count"].toDouble(), 1.0);

    Tensor scale = inverse_deviation;
    if (weight.defined()) scale = scale * weight;
    const Tensor input_gradient = (gradient - along_channels(sums.narrow(0, 0, channels), dimensions) -
                                   normalised * along_channels(sums.narrow(0, channels, channels), dimensions)) *
                                  along_channels(scale, dimensions);
    const int64_t bias_type = context->saved_data["bias"].toInt();
    // Weight and bias get this rank's share: data parallelism averages them as any other gradient.
    return {input_gradient.to(static_cast<torch::ScalarType>(context->saved_data["dtype"].toInt())),
            weight.defined() ? weight_gradient.to(weight.scalar_type()) : Tensor(),
            bias_type < 0 ? Tensor() : bias_gradient.to(static_cast<torch::ScalarType>(bias_type)),
            Tensor(),
            Tensor(),
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

}  // namespace

Tensor sync_batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                       const Tensor& running_var, double momentum, double eps,
                       const std::shared_ptr<comm::Group>& group) {
  return SyncBatchNormFunction::apply(input, weight, bias, running_mean, running_var, momentum, eps, group);
}

}  // namespace paceline::parallel
