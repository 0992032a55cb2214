#include "paceline/optim/fused.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "paceline/core/error.h"
#include "paceline/testing/python_reference.h"

namespace paceline::optim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
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

/// How far vectors that are trained in `type` get from what torch::optim makes of them in double. Some are longer, some
/// shorter than what a kernel takes at once.
template <class Fused, class Reference, class Options>
double distance_in(torch::ScalarType type, const Options& options) {
  std::vector<Tensor> ours, theirs;
  for (const int64_t size : {64, 1000, 3}) {
    torch::manual_seed(size);
    ours.push_back(torch::randn({size}).to(type).requires_grad_());
    theirs.push_back(ours.back().detach().to(torch::kDouble, /*non_blocking=*/false, /*copy=*/true).requires_grad_());
  }
  Fused fused(ours, options);
  Reference reference(theirs, options);
  for (int64_t step = 0; step < 5; ++step) {
    for (size_t i = 0; i < ours.size(); ++i) {
      torch::manual_seed(100 * step + static_cast<int64_t>(i));
      const Tensor gradient = torch::randn(ours[i].sizes());  // none of them is small: float16 has no room for squares
      ours[i].mutable_grad() = (gradient + gradient.sign() / 2).to(type);
      theirs[i].mutable_grad() = ours[i].grad().to(torch::kDouble, /*non_blocking=*/false, /*copy=*/true);
    }
    fused.step();
    reference.step();
  }
  double distance = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    distance = std::max(distance, (ours[i] - theirs[i]).abs().max().item<double>());
  }
  return distance;
}

TEST(Fused, IsRightInEveryType) {
  const std::map<torch::ScalarType, double> tolerances = {
      {torch::kDouble, 1e-12}, {torch::kFloat, 1e-5}, {torch::kHalf, 2e-2}, {torch::kBFloat16, 0.1}};
  for (const auto& [type, tolerance] : tolerances) {
    SCOPED_TRACE(c10::toString(type));
    const auto adamw = AdamWOptions(0.1).eps(1e-4).weight_decay(0.1);
    EXPECT_LT((distance_in<AdamW, torch::optim::AdamW>(type, adamw)), tolerance);
    const auto adam = AdamOptions(0.1).eps(1e-4).amsgrad(true);
    EXPECT_LT((distance_in<Adam, torch::optim::Adam>(type, adam)), tolerance);
    for (const double momentum : {0.0, 0.9}) {
      for (const bool nesterov : {false, momentum != 0}) {
        const auto sgd = SGDOptions(0.1).momentum(momentum).nesterov(nesterov).weight_decay(0.1);
        EXPECT_LT((distance_in<SGD, torch::optim::SGD>(type, sgd)), tolerance) << momentum << ' ' << nesterov;
      }
    }
  }
}

/// Trains the first three columns of a matrix: the rest of it is somebody else's.
template <class Fused, class Reference, class Options>
void expect_no_neighbour_moves(const Options& options, torch::ScalarType type) {
  torch::manual_seed(1);
  const Tensor matrix = torch::randn({40, 8}).to(type), before = matrix.clone();
  std::vector<Tensor> ours = {matrix.slice(1, 0, 3).set_requires_grad(true)};
  std::vector<Tensor> theirs = {before.slice(1, 0, 3).clone().set_requires_grad(true)};
  Fused fused(ours, options);
  Reference reference(theirs, options);
  for (int64_t step = 0; step < 5; ++step) {
    set_gradients(ours, step);
    set_gradients(theirs, step);
    fused.step();
    reference.step();
  }
  EXPECT_TRUE(torch::equal(matrix.slice(1, 3), before.slice(1, 3)));
  EXPECT_TRUE(torch::allclose(ours[0], theirs[0], 1e-2, type == torch::kFloat ? 1e-6 : 1e-1));
}

TEST(Fused, LeavesTheRestOfATensorAloneWhereAParameterIsASliceOfIt) {
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    SCOPED_TRACE(c10::toString(type));
    expect_no_neighbour_moves<AdamW, torch::optim::AdamW>(AdamWOptions(1e-2), type);
    expect_no_neighbour_moves<Adam, torch::optim::Adam>(AdamOptions(1e-2).amsgrad(true), type);
    expect_no_neighbour_moves<SGD, torch::optim::SGD>(SGDOptions(1e-2).momentum(0.9), type);
    expect_no_neighbour_moves<SGD, torch::optim::SGD>(SGDOptions(1e-2), type);
  }
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

TEST(Fused, RefusesComplexParameters) {
  const auto refuse = [](auto make) {
    Tensor parameter = torch::zeros({3, 2}, torch::kComplexFloat).requires_grad_();
    parameter.mutable_grad() = torch::ones_like(parameter);
    auto optimizer = make(std::vector<Tensor>{parameter});
    EXPECT_THAT([&] { optimizer.step(); },
                ::testing::ThrowsMessage<UsageError>(
                    AllOf(HasSubstr("[3, 2]"), HasSubstr("ComplexFloat"), HasSubstr("view_as_real"))));
  };
  refuse([](auto parameters) { return AdamW(parameters, AdamWOptions(0.1)); });
  refuse([](auto parameters) { return Adam(parameters, AdamOptions(0.1)); });
  refuse([](auto parameters) { return SGD(parameters, SGDOptions(0.1)); });
}

TEST(Fused, RefusesSparseGradients) {
  torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(4, 2).sparse(true));
  embedding->forward(torch::tensor({1, 2})).sum().backward();
  AdamW optimizer(embedding->parameters());
  EXPECT_THROW(optimizer.step(), UsageError);
}

/// Two groups: what the second is refused for, the first must not have been stepped for.
template <class Optimizer, class Options>
void expect_refused_before_anything_moves(const Options& options, torch::ScalarType type) {
  Tensor first = torch::ones({70}, type).requires_grad_(), second = torch::ones({70}).requires_grad_();
  torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(4, 2).sparse(true));
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<Tensor>{first, second});
  groups.emplace_back(embedding->parameters());
  Optimizer optimizer(groups, options);
  for (Tensor parameter : {first, second}) parameter.mutable_grad() = torch::ones_like(parameter);
  embedding->forward(torch::tensor({1, 2})).sum().backward();
  EXPECT_THROW(optimizer.step(), UsageError);
  for (const Tensor& parameter : {first, second}) EXPECT_TRUE(torch::equal(parameter, torch::ones_like(parameter)));
  EXPECT_TRUE(optimizer.state().empty());
}

TEST(Fused, RefusesBeforeAnythingMoves) {
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    SCOPED_TRACE(c10::toString(type));
    expect_refused_before_anything_moves<SGD>(SGDOptions(0.1), type);
    expect_refused_before_anything_moves<SGD>(SGDOptions(0.1).momentum(0.9), type);
    expect_refused_before_anything_moves<Adam>(AdamOptions(0.1), type);
    expect_refused_before_anything_moves<AdamW>(AdamWOptions(0.1), type);
  }
}

}  // namespace
}  // namespace paceline::optim
