// Models that share a loss while their gradients come in another order on each rank: what one of them waits for at its
// first gradient, another rank would reach only after it has waited for something of this rank's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "paceline/core/error.h"
#include "paceline/parallel/ddp/data_parallel.h"
#include "paceline/parallel/ddp/sync_batch_norm.h"
#include "paceline/state/module_state.h"
#include "paceline/testing/ranks.h"

namespace paceline::parallel {
namespace {

using comm::Group;
using ::testing::HasSubstr;
using testing::message_of;
using testing::run_ranks;

struct MidwayError : torch::autograd::Function<MidwayError> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& input) { return input.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw std::runtime_error("the user's own mistake");
  }
};

// `aux` is the model's own second use, before or after the other model.
struct FeaturesImpl : torch::nn::Module {
  torch::Tensor hidden(const torch::Tensor& input) {
    const torch::Tensor values = features->forward(input);
    return breaks ? MidwayError::apply(values) : values;
  }
  torch::nn::Linear features = register_module("features", torch::nn::Linear(3, 4)),
                    aux = register_module("aux", torch::nn::Linear(4, 1));
  bool breaks = false;  // in the middle of the backward
};
TORCH_MODULE(Features);

using Loss = std::function<torch::Tensor(Features a, torch::nn::Linear b, const torch::Tensor& input)>;

// Autograd takes what was computed last first.
torch::Tensor aux_last(Features a, torch::nn::Linear b, const torch::Tensor& input) {
  const torch::Tensor hidden = a->hidden(input);
  const torch::Tensor main = b->forward(hidden).square().sum();
  return main + a->aux->forward(hidden).square().sum();
}

torch::Tensor aux_first(Features a, torch::nn::Linear b, const torch::Tensor& input) {
  const torch::Tensor hidden = a->hidden(input);
  const torch::Tensor aux = a->aux->forward(hidden).square().sum();
  return aux + b->forward(hidden).square().sum();
}

torch::Tensor without_aux(Features a, torch::nn::Linear b, const torch::Tensor& input) {
  return b->forward(a->hidden(input)).square().sum();
}

std::vector<torch::Tensor> gradients_or_zeros(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : parameters) {
    gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : torch::zeros_like(parameter));
  }
  return gradients;
}

// Four steps; the averages are those of what the ranks compute alone. A backward may break before each.
void expect_averages(const DdpOptions& options, const Loss& rank_zeros, const Loss& others, bool breaks = false) {
  run_ranks(Group::in_process(2), [&](const std::shared_ptr<Group>& group) {
    Features a;
    torch::nn::Linear b(4, 2);
    const auto trained_a = DataParallel::attach(a.ptr(), group, options, nullptr);
    const auto trained_b = DataParallel::attach(b.ptr(), group, options, nullptr);
    Features alone_a;
    torch::nn::Linear alone_b(4, 2);
    load_module_state(*alone_a, module_state(*a));
    load_module_state(*alone_b, module_state(*b));
    const auto all = [](const auto& one, const auto& other) {
      auto parameters = one->parameters();
      for (const auto& parameter : other->parameters()) parameters.push_back(parameter);
      return parameters;
    };
    const Loss& loss = group->rank() == 0 ? rank_zeros : others;
    for (int step = 0; step < 4; ++step) {
      const torch::Tensor input = torch::randn({5, 3});
      for (auto parameters : {all(a, b), all(alone_a, alone_b)}) {
        for (torch::Tensor& parameter : parameters) parameter.mutable_grad().reset();
      }
      if (breaks) {
        a->breaks = true;
        EXPECT_THAT(message_of<std::exception>([&] { loss(a, b, input).backward(); }), HasSubstr("own mistake"));
        a->breaks = false;
        for (torch::Tensor& parameter : all(a, b)) parameter.mutable_grad().reset();
      }
      loss(a, b, input).backward();
      loss(alone_a, alone_b, input).backward();
      auto wanted = gradients_or_zeros(all(alone_a, alone_b));
      const auto got = gradients_or_zeros(all(a, b));
      for (size_t i = 0; i < wanted.size(); ++i) {
        group->all_reduce(wanted[i], comm::ReduceOp::mean);
        EXPECT_TRUE(torch::allclose(got[i], wanted[i], 1e-4, 1e-5)) << "parameter " << i << " in step " << step;
      }
    }
  });
}

DdpOptions in_small_buckets() {
  DdpOptions options;
  options.bucket_cap_mb = 0.00001;
  return options;
}

TEST(SeveralModels, TheFirstGradientsMayComeInAnotherOrderOnEachRank) {
  expect_averages({}, &aux_last, &aux_first);
  expect_averages(in_small_buckets(), &aux_last, &aux_first);
}

TEST(SeveralModels, ARankMayUseAModelOnceMoreThanTheOthers) {
  for (DdpOptions options : {DdpOptions{}, in_small_buckets()}) {
    options.find_unused_parameters = true;
    expect_averages(options, &aux_last, &without_aux);
    expect_averages(options, &without_aux, &aux_last);
  }
}

TEST(SeveralModels, StaticGraphsMayComeInAnotherOrderOnEachRank) {
  for (DdpOptions options : {DdpOptions{}, in_small_buckets()}) {
    options.static_graph = true;
    expect_averages(options, &aux_last, &aux_first);
  }
}

TEST(SeveralModels, AStepAfterABrokenBackwardWaitsForNobodyEither) {
  for (const bool is_static : {false, true}) {
    for (const bool view : {false, true}) {
      DdpOptions options = in_small_buckets();
      options.static_graph = is_static;
      options.gradient_as_bucket_view = view;
      expect_averages(options, &aux_last, &aux_first, /*breaks=*/true);
    }
  }
}

struct NormalisedImpl : torch::nn::Module {
  torch::nn::Linear trunk = register_module("trunk", torch::nn::Linear(3, 4));
  nn::SyncBatchNorm1d norm = register_module("norm", nn::SyncBatchNorm1d(4));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(4, 1));
};

TEST(SeveralModels, AHeadBehindSyncBatchNormMayBeUsedOnOneRankOnly) {
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    const auto model = std::make_shared<NormalisedImpl>();
    DdpOptions options = in_small_buckets();
    options.find_unused_parameters = true;
    const auto trained = DataParallel::attach(model, group, options, nullptr);
    for (int step = 0; step < 4; ++step) {
      model->zero_grad();
      const torch::Tensor hidden = model->norm->forward(model->trunk->forward(torch::randn({6, 3})));
      torch::Tensor loss = hidden.pow(3).sum();
      if (group->rank() == 0) loss = loss + model->head->forward(hidden).square().sum();
      loss.backward();
      for (const auto& parameter : model->named_parameters()) {
        const auto gradients = group->all_gather(parameter.value().grad());
        EXPECT_TRUE(torch::equal(gradients[0], gradients[1])) << parameter.key() << " in step " << step;
      }
    }
  });
}

}  // namespace
}  // namespace paceline::parallel
