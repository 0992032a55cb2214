#include "paceline/parallel/ddp/sync_batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/error.h"
#include "paceline/testing/ranks.h"

namespace paceline::parallel {
namespace {

struct Result {
  torch::Tensor output, input_gradient, weight_gradient, bias_gradient, mean, variance, count;
};

// Two training steps, so that running statistics build on each other; `direction` makes gradients uneven.
template <class Module>
Result train(Module module, const torch::Tensor& batch, const torch::Tensor& direction) {
  module->to(torch::kFloat64);
  {
    torch::NoGradGuard no_grad;
    module->weight.copy_(torch::linspace(0.5, 1.5, module->weight.numel()));
    module->bias.copy_(torch::linspace(-1, 1, module->bias.numel()));
  }
  torch::Tensor input, output;
  for (int step = 0; step < 2; ++step) {
    module->zero_grad();
    input = (batch * (step + 1)).detach().requires_grad_();
    output = module->forward(input);
    (output * direction).sum().backward();
  }
  return {output.detach(),      input.grad(),        module->weight.grad(),      module->bias.grad(),
          module->running_mean, module->running_var, module->num_batches_tracked};
}

// Ranks hold `sizes` rows of one global batch; everything must equal plain batch norm over all rows.
template <class Plain, class Sync>
void expect_equal_to_global(const std::vector<int64_t>& sizes, const std::vector<int64_t>& row,
                            std::optional<double> m) {
  std::vector<int64_t> shape = row;
  int64_t rows = 0;
  for (const int64_t size : sizes) rows += size;
  shape.insert(shape.begin(), rows);
  torch::manual_seed(1);
  const torch::Tensor batch = torch::randn(shape, torch::kFloat64) * 3 + 1;
  const torch::Tensor direction = torch::randn(shape, torch::kFloat64);
  const auto options = torch::nn::BatchNormOptions(row[0]).momentum(m);
  const Result whole = train(Plain(options), batch, direction);

  const auto batches = batch.split_with_sizes(sizes), directions = direction.split_with_sizes(sizes);
  const auto outputs = whole.output.split_with_sizes(sizes);
  const auto input_gradients = whole.input_gradient.split_with_sizes(sizes);
  testing::run_ranks(comm::Group::in_process(static_cast<int64_t>(sizes.size())), [&](const auto& group) {
    Sync module(options);
    module->set_group(group);
    const auto rank = group->rank();
    const Result part = train(module, batches[rank], directions[rank]);
    const auto near = [](const torch::Tensor& a, const torch::Tensor& b) { return torch::allclose(a, b, 1e-9, 1e-10); };
    EXPECT_TRUE(near(part.output, outputs[rank]));
    EXPECT_TRUE(near(part.input_gradient, input_gradients[rank]));
    torch::Tensor weight_gradient = part.weight_gradient.clone(), bias_gradient = part.bias_gradient.clone();
    group->all_reduce(weight_gradient, comm::ReduceOp::sum);
    group->all_reduce(bias_gradient, comm::ReduceOp::sum);
    EXPECT_TRUE(near(weight_gradient, whole.weight_gradient));
    EXPECT_TRUE(near(bias_gradient, whole.bias_gradient));
    EXPECT_TRUE(near(part.mean, whole.mean));
    EXPECT_TRUE(near(part.variance, whole.variance));
    EXPECT_TRUE(torch::equal(part.count, whole.count));
  });
}

TEST(SyncBatchNorm, EqualsBatchNormOverTheGlobalBatch) {
  expect_equal_to_global<torch::nn::BatchNorm2d, nn::SyncBatchNorm2d>({3, 5}, {4, 3, 2}, 0.1);
  expect_equal_to_global<torch::nn::BatchNorm1d, nn::SyncBatchNorm1d>({2, 2, 4}, {5}, 0.1);
  expect_equal_to_global<torch::nn::BatchNorm3d, nn::SyncBatchNorm3d>({1, 2}, {2, 2, 3, 2}, 0.1);
}

TEST(SyncBatchNorm, CumulativeAverageWithoutMomentum) {
  expect_equal_to_global<torch::nn::BatchNorm1d, nn::SyncBatchNorm1d>({3, 4}, {5}, std::nullopt);
}

TEST(SyncBatchNorm, ARankWithoutSamplesTakesPart) {
  expect_equal_to_global<torch::nn::BatchNorm1d, nn::SyncBatchNorm1d>({4, 0, 3}, {5}, 0.1);
}

TEST(SyncBatchNorm, RefusesGradientsOfGradients) {
  torch::manual_seed(4);
  const torch::Tensor batch = torch::randn({8, 3}, torch::kFloat64);
  torch::nn::BatchNorm1d plain(3);
  plain->to(torch::kFloat64);
  const auto gradient_of = [](auto& module, const torch::Tensor& input) {
    return torch::autograd::grad({module->forward(input).pow(3).sum()}, {input}, {}, /*retain_graph=*/true,
                                 /*create_graph=*/true)[0];
  };
  const torch::Tensor wanted = gradient_of(plain, batch.clone().requires_grad_());
  testing::run_ranks(comm::Group::in_process(2), [&](const auto& group) {
    nn::SyncBatchNorm1d module(3);
    module->to(torch::kFloat64);
    module->set_group(group);
    const torch::Tensor input = batch.chunk(2)[group->rank()].clone().requires_grad_();
    const torch::Tensor gradient = gradient_of(module, input);
    EXPECT_TRUE(torch::allclose(gradient, wanted.chunk(2)[group->rank()], 1e-9, 1e-10)) << "the first order is right";
    EXPECT_THAT(testing::message_of<UsageError>([&] { gradient.square().sum().backward(); }),
                ::testing::AllOf(::testing::HasSubstr("SyncBatchNorm"), ::testing::HasSubstr("second-order")));
    // Named inputs: autograd leaves out what does not lie on the way to them.
    EXPECT_THAT(testing::message_of<UsageError>(
                    [&] { torch::autograd::grad({gradient_of(module, input).square().sum() + input.sum()}, {input}); }),
                ::testing::HasSubstr("second-order"));
  });
}

TEST(SyncBatchNorm, IsBatchNormWithoutAGroupAndInEvaluation) {
  torch::manual_seed(2);
  const torch::Tensor batch = torch::randn({6, 3, 2, 2}, torch::kFloat64);
  const torch::Tensor direction = torch::randn_like(batch);
  const auto plain = train(torch::nn::BatchNorm2d(3), batch, direction);
  const auto alone = train(nn::SyncBatchNorm2d(3), batch, direction);
  EXPECT_TRUE(torch::equal(alone.output, plain.output));
  EXPECT_TRUE(torch::equal(alone.input_gradient, plain.input_gradient));

  auto groups = comm::Group::in_process(2);
  nn::SyncBatchNorm2d sync(3);
  sync->set_group(groups[0]);
  sync->eval();  // no collective: rank 1 does not come
  torch::nn::BatchNorm2d reference(3);
  reference->eval();
  EXPECT_TRUE(torch::equal(sync->forward(batch.to(torch::kFloat32)), reference->forward(batch.to(torch::kFloat32))));
}

TEST(SyncBatchNorm, HasBatchNormsStateNamesAndKeepsLowPrecisionInputs) {
  nn::SyncBatchNorm2d sync(3);
  torch::nn::BatchNorm2d plain(3);
  EXPECT_EQ(sync->named_parameters().keys(), plain->named_parameters().keys());
  EXPECT_EQ(sync->named_buffers().keys(), plain->named_buffers().keys());
  EXPECT_ANY_THROW(sync->forward(torch::zeros({2, 3})));

  testing::run_ranks(comm::Group::in_process(2), [](const auto& group) {
    nn::SyncBatchNorm1d module(4);
    module->set_group(group);
    torch::Tensor input = torch::randn({8, 4}).to(torch::kBFloat16).requires_grad_();
    torch::Tensor output = module->forward(input);
    EXPECT_EQ(output.scalar_type(), torch::kBFloat16);
    output.sum().backward();
    EXPECT_EQ(input.grad().scalar_type(), torch::kBFloat16);
    EXPECT_EQ(module->weight.grad().scalar_type(), torch::kFloat32);
  });
}

}  // namespace
}  // namespace paceline::parallel
