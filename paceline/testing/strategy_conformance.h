// What every parallel strategy that trains one model does, whatever it spreads over the ranks: seen from outside, the
// model is the one that a single process would have.
//
//     INSTANTIATE_TEST_SUITE_P(Ddp, StrategyConformance, Values(PrepareModelOptions{.parallel_strategy = "ddp"}));
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/amp/clip.h"
#include "paceline/core/error.h"
#include "paceline/parallel/strategy.h"
#include "paceline/state/module_state.h"
#include "paceline/testing/ranks.h"

namespace paceline {
inline void PrintTo(const PrepareModelOptions& options, std::ostream* text) {
  *text << Json(options).dump();
}
}  // namespace paceline

namespace paceline::testing {

class StrategyConformance : public ::testing::TestWithParam<PrepareModelOptions> {
 protected:
  using Net = torch::nn::Sequential;
  static constexpr int64_t kSteps = 12, kBatch = 8;

  StrategyConformance() {
    torch::manual_seed(3);
    inputs_ = torch::randn({kSteps, kBatch, 1, 6, 6});
    targets_ = torch::randn({kSteps, kBatch, 3});
    start_ = module_state(*net());
    for (auto& [name, tensor] : start_.tensors) tensor = tensor.clone();
  }

  static Net net() {
    return Net(torch::nn::Conv2d(1, 4, 3), torch::nn::ReLU(), torch::nn::Flatten(), torch::nn::Linear(64, 16),
               torch::nn::ReLU(), torch::nn::Linear(16, 3));
  }
  Net started_net() const {
    Net made = net();
    load_module_state(*made, start_);
    return made;
  }
  static torch::optim::SGD optimizer_of(Net& model) {
    return torch::optim::SGD(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  }
  static std::shared_ptr<parallel::ParallelModel> attach(const Net& model, const std::shared_ptr<comm::Group>& group,
                                                         std::shared_ptr<StepLedger> ledger = nullptr) {
    const PrepareModelOptions& options = GetParam();
    return parallel::find_strategy(options.parallel_strategy).attach(model.ptr(), group, options, std::move(ledger));
  }

  /// The loss on this rank's rows of batch `step`; on all of them without a group.
  torch::Tensor loss(Net model, int64_t step, const comm::Group* group) const {
    const int64_t rank = group == nullptr ? 0 : group->rank(), world = group == nullptr ? 1 : group->size();
    const auto rows = [&](const torch::Tensor& all) { return all[step].chunk(world)[rank]; };
    return torch::mse_loss(model->forward(rows(inputs_)), rows(targets_));
  }
  /// One step with clipping.
  void train_step(Net& model, torch::optim::Optimizer& optimizer, int64_t step, const comm::Group* group) const {
    optimizer.zero_grad();
    loss(model, step, group).backward();
    clip_grad_norm(model->parameters(), 0.5);
    optimizer.step();
  }
  /// What a model computes says which parameters it has, wherever they are.
  torch::Tensor output_of(Net model) const {
    const torch::NoGradGuard no_grad;
    return model->forward(inputs_[0]);
  }
  void expect_alike(const Net& model, const torch::Tensor& wanted, const std::string& where = "") const {
    EXPECT_TRUE(torch::allclose(output_of(model), wanted, 1e-4, 1e-5)) << where;
  }

  torch::Tensor inputs_, targets_;
  StateDict start_;
};

TEST_P(StrategyConformance, EqualsOneProcessOnTheGlobalBatchWithClipping) {
  Net whole = started_net();
  auto reference = optimizer_of(whole);
  for (int64_t step = 0; step < kSteps; ++step) train_step(whole, reference, step, nullptr);
  const torch::Tensor wanted = output_of(whole);
  EXPECT_FALSE(torch::allclose(output_of(started_net()), wanted, 1e-2, 1e-2)) << "nothing was learned";
  for (const int64_t world : {1, 2, 4}) {
    run_ranks(comm::Group::in_process(world), [&](const std::shared_ptr<comm::Group>& group) {
      Net model = group->rank() == 0 ? started_net() : net();  // the others get it from rank 0
      const auto trained = attach(model, group);
      auto optimizer = optimizer_of(model);
      for (int64_t step = 0; step < kSteps; ++step) train_step(model, optimizer, step, group.get());
      expect_alike(model, wanted, "world " + std::to_string(world));
    });
  }
}

TEST_P(StrategyConformance, NoSyncAccumulatesIntoTheNextSynchronisedBackward) {
  Net whole = started_net();
  auto reference = optimizer_of(whole);
  std::vector<torch::Tensor> wanted;
  for (int round = 0; round < 3; ++round) {
    reference.zero_grad();
    for (int64_t part = 0; part < 4; ++part) loss(whole, part, nullptr).backward();
    reference.step();
    wanted.push_back(output_of(whole));
  }
  run_ranks(comm::Group::in_process(2), [&](const std::shared_ptr<comm::Group>& group) {
    Net model = started_net();
    const auto trained = attach(model, group);
    auto optimizer = optimizer_of(model);
    for (int round = 0; round < 3; ++round) {
      optimizer.zero_grad(/*set_to_none=*/round != 1);
      for (int64_t part = 0; part < 4; ++part) {
        std::optional<parallel::NoSync> outer, inner;
        if (part < 3) outer.emplace(trained);
        if (part < 2) inner.emplace(trained);
        loss(model, part, group.get()).backward();
      }
      optimizer.step();
      expect_alike(model, wanted[round], "round " + std::to_string(round));
    }
  });
}

// Voided at the start of backward, from its middle and after it.
TEST_P(StrategyConformance, AVoidStepLeavesWeightsAndOptimizerAsTheyWere) {
  for (const int64_t world : {1, 2}) {
    run_ranks(comm::Group::in_process(world), [&](const std::shared_ptr<comm::Group>& group) {
      Net model = started_net(), undisturbed = started_net();
      const auto ledger = std::make_shared<StepLedger>();
      const auto trained = attach(model, group, ledger);
      auto optimizer = optimizer_of(model), reference = optimizer_of(undisturbed);
      for (int64_t step = 0; step < 6; ++step) {
        ledger->begin();
        optimizer.zero_grad();
        torch::Tensor value = loss(model, step, group.get());
        if (step == 2) value.register_hook([&](const torch::Tensor&) { trained->void_step(); });
        bool done = step != 3;  // in the middle: the last layer's gradients come first
        const auto hook = model->parameters()[4].register_hook([&](const torch::Tensor&) {
          if (!std::exchange(done, true)) trained->void_step();
        });
        value.backward();
        model->parameters()[4].remove_hook(hook);
        if (step == 4) trained->void_step();
        optimizer.step();
        const bool voided = step >= 2 && step <= 4;
        EXPECT_EQ(ledger->is_void(), voided) << "step " << step;
        if (!voided) {
          reference.zero_grad();
          loss(undisturbed, step, nullptr).backward();
          reference.step();
        }
        expect_alike(model, output_of(undisturbed), "step " + std::to_string(step));
      }
    });
  }
}

TEST_P(StrategyConformance, TheStateOfOneModelIsThatOfAnother) {
  run_ranks(comm::Group::in_process(2), [&](const std::shared_ptr<comm::Group>& group) {
    Net model = started_net(), other = net();
    const auto trained = attach(model, group), restored = attach(other, group);
    auto optimizer = optimizer_of(model);
    train_step(model, optimizer, 0, group.get());
    EXPECT_EQ(trained->placement(), restored->placement());
    restored->load_state_dict(trained->state_dict());
    expect_alike(other, output_of(model));
    StateDict incomplete = trained->state_dict();
    incomplete.tensors.erase(incomplete.tensors.begin());
    EXPECT_THROW(restored->load_state_dict(incomplete), ConfigError);
  });
}

}  // namespace paceline::testing
