#include "paceline/optim/optimizer_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/error.h"
#include "paceline/optim/fused.h"

namespace paceline::optim {
namespace {

using torch::Tensor;

struct Net : torch::nn::Module {
  Net() : Net(4) {}
  explicit Net(int64_t width) : first(3, width), second(width, 2) {
    register_module("first", first);
    register_module("second", second);
  }
  Tensor forward(const Tensor& x) { return second->forward(torch::relu(first->forward(x))); }
  torch::nn::Linear first, second;
};

std::shared_ptr<Net> make_net() {
  torch::manual_seed(3);
  return std::make_shared<Net>();
}

void train(Net& net, torch::optim::Optimizer& optimizer, int64_t from, int64_t to) {
  for (int64_t step = from; step < to; ++step) {
    torch::manual_seed(step);
    optimizer.zero_grad();
    net.forward(torch::randn({8, 3})).pow(2).sum().backward();
    optimizer.step();
  }
}

StateDict copy_of(const StateDict& state) {  // as a checkpoint holds it
  StateDict copy{.values = Json::parse(state.values.dump())};
  for (const auto& [name, tensor] : state.tensors) copy.tensors[name] = tensor.clone();
  return copy;
}

template <class Optimizer, class Options>
void expect_round_trip(const Options& options, const Options& other) {
  const auto whole = make_net();
  Optimizer uninterrupted(whole->parameters(), options);
  train(*whole, uninterrupted, 0, 10);

  const auto before = make_net();
  Optimizer first(before->parameters(), options);
  train(*before, first, 0, 6);
  const StateDict state = copy_of(optimizer_state(first, parameter_names(*before)));

  const auto after = make_net();
  {
    const torch::NoGradGuard no_grad;
    for (const auto& item : before->named_parameters()) after->named_parameters()[item.key()].copy_(item.value());
  }
  std::vector<Tensor> reversed = after->parameters();
  std::ranges::reverse(reversed);  // names tie state to parameters, not places
  Optimizer second(reversed, other);
  load_optimizer_state(second, parameter_names(*after), state);
  EXPECT_EQ(second.param_groups()[0].options().get_lr(), options.lr());
  train(*after, second, 6, 10);
  for (const auto& item : whole->named_parameters()) {
    EXPECT_TRUE(torch::equal(item.value(), after->named_parameters()[item.key()])) << item.key();
  }
}

TEST(OptimizerState, GoesOnBitForBit) {
  namespace to = torch::optim;
  expect_round_trip<AdamW>(AdamWOptions(0.01).amsgrad(true), AdamWOptions(0.5));
  expect_round_trip<Adam>(AdamOptions(0.01).betas({0.8, 0.9}), AdamOptions(0.5));
  expect_round_trip<SGD>(SGDOptions(0.01).momentum(0.9).nesterov(true), SGDOptions(0.5));
  expect_round_trip<to::AdamW>(AdamWOptions(0.01).amsgrad(true), AdamWOptions(0.5));
  expect_round_trip<to::Adam>(AdamOptions(0.01), AdamOptions(0.5));
  expect_round_trip<to::SGD>(SGDOptions(0.01).momentum(0.9), SGDOptions(0.5));
  expect_round_trip<to::SGD>(SGDOptions(0.01), SGDOptions(0.5));
  expect_round_trip<to::Adagrad>(to::AdagradOptions(0.01).lr_decay(0.1), to::AdagradOptions(0.5));
  expect_round_trip<to::RMSprop>(to::RMSpropOptions(0.01).momentum(0.9).centered(true), to::RMSpropOptions(0.5));
}

TEST(OptimizerState, IsSharedByTorchsAndOurs) {
  const auto net = make_net();
  torch::optim::AdamW theirs(net->parameters(), AdamWOptions(0.01));
  train(*net, theirs, 0, 3);
  const StateDict state = copy_of(optimizer_state(theirs, parameter_names(*net)));
  EXPECT_EQ(state.values["steps"]["first.weight"], 3);
  EXPECT_EQ(state.tensors.count("second.bias.exp_avg_sq"), 1u);
  AdamW ours(net->parameters());
  load_optimizer_state(ours, parameter_names(*net), state);
  const StateDict again = optimizer_state(ours, parameter_names(*net));
  EXPECT_EQ(again.values, state.values);
  for (const auto& [name, tensor] : state.tensors) EXPECT_TRUE(torch::equal(tensor, again.tensors.at(name))) << name;
}

std::string error_of(torch::optim::Optimizer& optimizer, const torch::nn::Module& module, const StateDict& state) {
  try {
    load_optimizer_state(optimizer, parameter_names(module), state);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(OptimizerState, AnErrorNamesWhatDoesNotFitAndNothingIsLoaded) {
  const auto net = make_net();
  AdamW optimizer(net->parameters(), AdamWOptions(0.01));
  train(*net, optimizer, 0, 2);
  const StateDict good = copy_of(optimizer_state(optimizer, parameter_names(*net)));

  Net wide(5);
  AdamW other(wide.parameters());
  EXPECT_THAT(error_of(other, wide, good), ::testing::HasSubstr("first.weight.exp_avg has shape [4, 3]"));
  EXPECT_TRUE(other.state().empty());

  AdamW part(net->first->parameters());
  EXPECT_THAT(error_of(part, *net, good), ::testing::HasSubstr("left over in it: second.bias, second.weight"));

  SGD sgd(net->parameters(), SGDOptions(0.1));
  EXPECT_THAT(error_of(sgd, *net, good), ::testing::HasSubstr("is of AdamW, this optimizer is SGD"));

  StateDict damaged = copy_of(good);
  damaged.tensors["first.weight.extra"] = torch::zeros({1});
  EXPECT_THAT(error_of(optimizer, *net, damaged), ::testing::HasSubstr("first.weight.extra"));
  EXPECT_NE(error_of(optimizer, *net, {}), "");

  EXPECT_THROW(optimizer_state(optimizer, parameter_names(*net->first)), ConfigError);
  torch::optim::LBFGS lbfgs(net->parameters());
  EXPECT_THROW(optimizer_state(lbfgs, parameter_names(*net)), ConfigError);
}

}  // namespace
}  // namespace paceline::optim
