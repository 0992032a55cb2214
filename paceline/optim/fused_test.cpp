#include "paceline/optim/fused.h"

#include <gtest/gtest.h>

#include "paceline/core/error.h"
#include "paceline/testing/python_reference.h"

namespace paceline::optim {
namespace {

using torch::Tensor;

/// Parameters of several shapes, one of them with other strides than its gradients at first.
std::vector<Tensor> make_parameters(torch::ScalarType type = torch::kFloat) {
  torch::manual_seed(1);
  std::vector<Tensor> parameters = {torch::randn({5, 7}), torch::randn({3}), torch::randn({}),
                                    torch::randn({2, 3, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast),
                                    torch::randn({2000})};
  for (Tensor& parameter : parameters) parameter = parameter.to(type).requires_grad_();
  return parameters;
}

void set_gradients(std::vector<Tensor>& parameters, int64_t step) {
  torch::manual_seed(100 + step);
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor gradient = torch::randn(parameters[i].sizes()).to(parameters[i].scalar_type());
    const bool unused = i == 1 && step % 3 == 2;
    parameters[i].mutable_grad() = unused ? Tensor() : gradient;
  }
}

template <class Fused, class Reference, class Options>
void expect_equal(const Options& options, torch::ScalarType type = torch::kFloat) {
  auto ours = make_parameters(type);
  auto theirs = make_parameters(type);
  // Two groups: the second with a learning rate of its own.
  const auto groups = [&options](std::vector<Tensor> parameters) {
    Options other = options;
    other.lr(options.lr() / 2);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector<Tensor>(parameters.begin(), parameters.begin() + 3));
    groups.emplace_back(std::vector<Tensor>(parameters.begin() + 3, parameters.end()),
                        std::make_unique<Options>(other));
    return groups;
  };
  Fused fused(groups(ours), options);
  Reference reference(groups(theirs), options);
  for (int64_t step = 0; step < 50; ++step) {
    set_gradients(ours, step);
    set_gradients(theirs, step);
    fused.step();
    reference.step();
  }
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i], theirs[i], 1e-6, 1e-6))
        << "parameter " << i << " differs by " << (ours[i] - theirs[i]).abs().max().item<double>();
  }
}

TEST(Fused, EqualsTorchOptim) {
  expect_equal<AdamW, torch::optim::AdamW>(AdamWOptions(1e-2).weight_decay(0.1));
  expect_equal<AdamW, torch::optim::AdamW>(AdamWOptions(1e-2).amsgrad(true).betas({0.8, 0.9}).eps(1e-6));
  expect_equal<AdamW, torch::optim::AdamW>(AdamWOptions(1e-2), torch::kDouble);
  expect_equal<Adam, torch::optim::Adam>(AdamOptions(1e-2).weight_decay(0.1));
  expect_equal<Adam, torch::optim::Adam>(AdamOptions(1e-2).amsgrad(true));
  expect_equal<SGD, torch::optim::SGD>(SGDOptions(1e-2));
  expect_equal<SGD, torch::optim::SGD>(SGDOptions(1e-2).momentum(0.9).weight_decay(0.1));
  expect_equal<SGD, torch::optim::SGD>(SGDOptions(1e-2).momentum(0.9).dampening(0.3));
  expect_equal<SGD, torch::optim::SGD>(SGDOptions(1e-2).momentum(0.9).nesterov(true));
}

template <class Optimizer, class Options>
std::vector<float> train(const Options& options) {
  Tensor weight = (torch::arange(12, torch::kFloat).view({3, 4}) / 10).requires_grad_();
  Optimizer optimizer({weight}, options);
  for (int64_t step = 0; step < 20; ++step) {
    weight.mutable_grad() = torch::sin(torch::arange(12, torch::kFloat).view({3, 4}) + step);
    optimizer.step();
  }
  const Tensor values = weight.detach().contiguous();
  return {values.data_ptr<float>(), values.data_ptr<float>() + 12};
}

TEST(Fused, EqualsPython) {
  const auto python = testing::python_reference("paceline/optim/fused_test.py");
  if (!python) GTEST_SKIP() << "no Python with torch";
  EXPECT_EQ(train<AdamW>(AdamWOptions(0.01).weight_decay(0.1).amsgrad(true)),
            python->at("AdamW").get<std::vector<float>>());
  EXPECT_EQ(train<Adam>(AdamOptions(0.01).weight_decay(0.1)), python->at("Adam").get<std::vector<float>>());
  EXPECT_EQ(train<SGD>(SGDOptions(0.01).momentum(0.9).weight_decay(0.1).nesterov(true)),
            python->at("SGD").get<std::vector<float>>());
}

TEST(Fused, AVoidStepChangesNothing) {
  auto parameters = make_parameters();
  AdamW optimizer(parameters, AdamWOptions(0.1));
  set_gradients(parameters, 0);
  optimizer.step();
  const Tensor before = parameters[0].detach().clone();
  for (Tensor& parameter : parameters) parameter.mutable_grad().reset();
  optimizer.step();
  EXPECT_TRUE(torch::equal(before, parameters[0]));
  const auto& state =
      static_cast<torch::optim::AdamWParamState&>(*optimizer.state().at(parameters[0].unsafeGetTensorImpl()));
  EXPECT_EQ(state.step(), 1);
}

TEST(Fused, CallsTheClosureWithGradients) {
  Tensor parameter = torch::ones({2}).requires_grad_();
  SGD optimizer({parameter}, SGDOptions(0.5));
  const Tensor loss = optimizer.step([&] {
    Tensor sum = parameter.sum();
    sum.backward();
    return sum;
  });
  EXPECT_EQ(loss.item<float>(), 2);
  EXPECT_EQ(parameter[0].item<float>(), 0.5);
}

TEST(Fused, RefusesSparseGradients) {
  torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(4, 2).sparse(true));
  embedding->forward(torch::tensor({1, 2})).sum().backward();
  AdamW optimizer(embedding->parameters());
  EXPECT_THROW(optimizer.step(), UsageError);
}

}  // namespace
}  // namespace paceline::optim
