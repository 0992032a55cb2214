#include "paceline/optim/lr_scheduler.h"

#include <gtest/gtest.h>

#include "paceline/core/error.h"
#include "paceline/optim/fused.h"
#include "paceline/testing/python_reference.h"

namespace paceline::optim {
namespace {

SGD make_optimizer(double lr) {
  return SGD({torch::zeros({1}).requires_grad_()}, SGDOptions(lr));
}

TEST(Schedules, EqualPythons) {
  const auto python = testing::python_reference("paceline/optim/lr_scheduler_test.py");
  if (!python) GTEST_SKIP() << "no Python with torch";
  const std::map<std::string, Schedule> schedules = {
      {"linear", linear(7, 0.25, 0.75)},
      {"cosine", cosine(10, 0.2)},
      {"step", step_decay(3, 0.4)},
      {"one_cycle", one_cycle({.total_steps = 50})},
      {"one_cycle_linear",
       one_cycle({.total_steps = 37, .pct_start = 0.4, .div_factor = 10, .linear_annealing = true})},
      {"one_cycle_three", one_cycle({.total_steps = 41, .final_div_factor = 100, .three_phase = true})},
      {"warm_up_cosine", warm_up(5, cosine(20, 0.1))}};
  ASSERT_EQ(python->size(), schedules.size());
  for (const auto& [name, schedule] : schedules) {
    auto optimizer = make_optimizer(0.5);
    LRScheduler scheduler(optimizer, schedule);
    for (const Json& rate : python->at(name)) {
      EXPECT_NEAR(scheduler.get_last_lr()[0], rate.get<double>(), 1e-12) << name;
      scheduler.step();
    }
  }
}

TEST(Schedules, RefuseWhatHasNoMeaning) {
  EXPECT_THROW(linear(0, 0, 1), ConfigError);
  EXPECT_THROW(one_cycle({}), ConfigError);
  EXPECT_THROW(one_cycle({.total_steps = 9, .pct_start = 1.5}), ConfigError);
  EXPECT_THROW(one_cycle({.total_steps = 9, .div_factor = 0}), ConfigError);
  EXPECT_THROW(one_cycle({.total_steps = 9, .final_div_factor = -1}), ConfigError);
  EXPECT_THROW(sequence({cosine(3)}, {5}), ConfigError);
  EXPECT_THROW(sequence({cosine(3), cosine(3), cosine(3)}, {5, 4}), ConfigError);
}

TEST(LRScheduler, SetsEveryGroupFromItsOwnLearningRate) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<torch::Tensor>{torch::zeros({1})}, std::make_unique<SGDOptions>(1.0));
  groups.emplace_back(std::vector<torch::Tensor>{torch::zeros({1})}, std::make_unique<SGDOptions>(4.0));
  SGD optimizer(groups, SGDOptions(1.0));
  LRScheduler scheduler(optimizer, step_decay(1, 0.5));
  scheduler.step();
  EXPECT_EQ(scheduler.get_last_lr(), (std::vector<double>{0.5, 2.0}));
}

TEST(LRScheduler, GoesOnFromItsState) {
  auto optimizer = make_optimizer(1);
  LRScheduler scheduler(optimizer, cosine(10));
  for (int i = 0; i < 4; ++i) scheduler.step();
  auto fresh = make_optimizer(7);
  LRScheduler resumed(fresh, cosine(10));
  resumed.load_state_dict(scheduler.state_dict());
  EXPECT_EQ(resumed.get_last_lr(), scheduler.get_last_lr());
  resumed.step();
  scheduler.step();
  EXPECT_EQ(resumed.get_last_lr(), scheduler.get_last_lr());
  EXPECT_THROW(resumed.load_state_dict({}), ConfigError);
}

TEST(LRScheduler, TakesWhatPointsToAnOptimizer) {
  const auto shared = std::make_shared<torch::optim::SGD>(make_optimizer(1));
  const std::unique_ptr<torch::optim::Optimizer> unique = std::make_unique<torch::optim::SGD>(make_optimizer(1));
  LRScheduler of_shared(shared, step_decay(1, 0.5)), of_unique(unique, step_decay(1, 0.5));
  of_shared.step();
  of_unique.step();
  EXPECT_EQ(shared->param_groups()[0].options().get_lr(), 0.5);
  EXPECT_EQ(unique->param_groups()[0].options().get_lr(), 0.5);
  EXPECT_THROW(LRScheduler(std::unique_ptr<torch::optim::Optimizer>(), step_decay(1)), UsageError);
}

TEST(LRScheduler, DoesNotCountVoidSteps) {
  auto optimizer = make_optimizer(1);
  const auto ledger = std::make_shared<StepLedger>();
  LRScheduler scheduler(optimizer, step_decay(1, 0.5), ledger);
  ledger->void_step();
  scheduler.step();
  EXPECT_EQ(scheduler.get_last_lr()[0], 1);
  ledger->begin();
  scheduler.step();
  EXPECT_EQ(scheduler.get_last_lr()[0], 0.5);
}

}  // namespace
}  // namespace paceline::optim
