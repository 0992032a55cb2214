#include "paceline/parallel/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "paceline/core/error.h"
#include "paceline/parallel/ddp/data_parallel.h"
#include "paceline/parallel/ddp/sync_batch_norm.h"
#include "paceline/state/module_state.h"
#include "paceline/testing/ranks.h"

namespace paceline::parallel {
namespace {

using comm::Group;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::run_ranks;
using torch::nn::Sequential;

// How many batches each rank has, and what is in them.
struct Uneven {
  std::vector<int64_t> batches;
  torch::Tensor inputs, targets;  // (rank, batch, row, …)

  explicit Uneven(std::vector<int64_t> lengths) : batches(std::move(lengths)) {
    torch::manual_seed(5);
    const auto world = static_cast<int64_t>(batches.size());
    inputs = torch::randn({world, 8, 4, 3});
    targets = torch::randn({world, 8, 4, 2});
  }
  torch::Tensor loss(Sequential model, int64_t rank, int64_t batch) const {
    return torch::mse_loss(model->forward(inputs[rank][batch]), targets[rank][batch]);
  }
};

Sequential uneven_net() {
  return Sequential(torch::nn::Linear(3, 8), torch::nn::BatchNorm1d(8), torch::nn::Tanh(), torch::nn::Linear(8, 2));
}

std::vector<torch::Tensor> start_of(const Sequential& model) {
  std::vector<torch::Tensor> start;
  for (const auto& parameter : model->parameters()) start.push_back(parameter.detach().clone());
  return start;
}

void set_parameters(const Sequential& model, const std::vector<torch::Tensor>& values) {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < values.size(); ++i) torch::Tensor(model->parameters()[i]).copy_(values[i]);
}

torch::optim::SGD momentum_sgd(const Sequential& model) {
  return torch::optim::SGD(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

// One process that takes every rank's batch in turn.
std::vector<torch::Tensor> trained_by_one(const Uneven& data, const std::vector<torch::Tensor>& start,
                                          const JoinOptions& options) {
  Sequential model = uneven_net();
  set_parameters(model, start);
  auto optimizer = momentum_sgd(model);
  for (int64_t batch = 0; batch < 8; ++batch) {
    std::vector<int64_t> live;
    for (size_t rank = 0; rank < data.batches.size(); ++rank) {
      if (batch < data.batches[rank]) live.push_back(static_cast<int64_t>(rank));
    }
    if (live.empty()) break;
    optimizer.zero_grad();
    const size_t divisor = options.divide_by_initial_world_size ? data.batches.size() : live.size();
    for (const int64_t rank : live) (data.loss(model, rank, batch) / static_cast<double>(divisor)).backward();
    optimizer.step();
  }
  return start_of(model);
}

void expect_equal_to_one_process(const std::vector<int64_t>& batches, const JoinOptions& options,
                                 const DdpOptions& ddp = {}) {
  const Uneven data(batches);
  const std::vector<torch::Tensor> start = start_of(uneven_net());
  const auto wanted = trained_by_one(data, start, options);
  run_ranks(Group::in_process(static_cast<int64_t>(batches.size())), [&](const std::shared_ptr<Group>& group) {
    at::set_num_threads(1);  // for tensors this small the ranks' thread pools only keep one another waiting
    Sequential model = uneven_net();
    set_parameters(model, start);
    const auto trained = DataParallel::attach(model.ptr(), group, ddp, nullptr);
    auto optimizer = momentum_sgd(model);
    Join join({trained}, group->duplicate(), options);
    for (int64_t batch = 0; batch < data.batches[group->rank()]; ++batch) {
      optimizer.zero_grad();
      data.loss(model, group->rank(), batch).backward();
      optimizer.step();
    }
    join.finish();
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_TRUE(torch::allclose(model->parameters()[i], wanted[i], 1e-4, 1e-5)) << "parameter " << i;
    }
    for (const torch::Tensor& buffer : model->buffers()) {
      const auto all = group->all_gather(buffer);
      for (const torch::Tensor& other : all) EXPECT_TRUE(torch::equal(other, all[0]));
    }
  });
}

TEST(Join, RanksWithFewerBatchesLetTheOthersGoOn) {
  for (const bool divide : {true, false}) {
    const JoinOptions options{.divide_by_initial_world_size = divide};
    expect_equal_to_one_process({5, 2}, options);
    expect_equal_to_one_process({2, 5}, options);
    expect_equal_to_one_process({3, 6, 1}, options);
    expect_equal_to_one_process({4, 4}, options);
    expect_equal_to_one_process({0, 3}, options);
    expect_equal_to_one_process({0, 0}, options);
  }
}

TEST(Join, WorksWithEveryKindOfReducer) {
  DdpOptions options;
  options.bucket_cap_mb = 0.00001;
  options.gradient_as_bucket_view = true;
  expect_equal_to_one_process({5, 2}, {}, options);
  options.find_unused_parameters = true;
  expect_equal_to_one_process({2, 5}, {.divide_by_initial_world_size = false}, options);
  options.find_unused_parameters = false;
  options.static_graph = true;
  expect_equal_to_one_process({1, 5}, {}, options);
}

TEST(Join, BackwardsInNoSyncHaveNoShadow) {
  const Uneven data({6, 2});
  const std::vector<torch::Tensor> start = start_of(uneven_net());
  run_ranks(Group::in_process(2), [&](const std::shared_ptr<Group>& group) {
    Sequential model = uneven_net();
    set_parameters(model, start);
    const std::shared_ptr<ParallelModel> trained = DataParallel::attach(model.ptr(), group, {}, nullptr);
    Join join({trained}, group->duplicate(), {});
    for (int64_t batch = 0; batch < data.batches[group->rank()]; ++batch) {
      std::optional<NoSync> local;
      if (batch % 2 == 0) local.emplace(trained);
      data.loss(model, group->rank(), batch).backward();
    }
    join.finish();
    EXPECT_EQ(join.source(), 0);
  });
}

// As a generator and a discriminator: not every backward is one of both.
TEST(Join, EachBackwardSaysWhichModelsItTrains) {
  const Uneven data({4, 1});
  run_ranks(Group::in_process(2), [&](const std::shared_ptr<Group>& group) {
    Sequential first = uneven_net(), second(torch::nn::Linear(2, 2));
    const std::vector<std::shared_ptr<ParallelModel>> trained = {
        DataParallel::attach(first.ptr(), group, {}, nullptr), DataParallel::attach(second.ptr(), group, {}, nullptr)};
    auto of_first = momentum_sgd(first), of_second = momentum_sgd(second);
    Join join(trained, group->duplicate(), {});
    for (int64_t batch = 0; batch < data.batches[group->rank()]; ++batch) {
      first->zero_grad();
      second->zero_grad();
      data.loss(first, group->rank(), batch).backward();
      of_first.step();
      second->forward(first->forward(data.inputs[group->rank()][batch])).square().sum().backward();
      of_second.step();
    }
    join.finish();
    for (const auto& model : {first, second}) {
      for (const torch::Tensor& parameter : model->parameters()) {
        const auto all = group->all_gather(parameter);
        EXPECT_TRUE(torch::equal(all[0], all[1]));
      }
    }
  });
}

TEST(Join, CanEndEverybodysLoopWithTheFirst) {
  const Uneven data({4, 1, 3});
  run_ranks(Group::in_process(3), [&](const std::shared_ptr<Group>& group) {
    Sequential model = uneven_net();
    const auto trained = DataParallel::attach(model.ptr(), group, {}, nullptr);
    int64_t steps = 0;
    EXPECT_THAT(message_of<CollectiveError>([&] {
                  Join join({trained}, group->duplicate(), {.throw_on_early_termination = true});
                  for (int64_t batch = 0; batch < data.batches[group->rank()]; ++batch) {
                    data.loss(model, group->rank(), batch).backward();
                    ++steps;
                  }
                  join.finish();
                }),
                AllOf(HasSubstr("but not that of rank 0, 2 of 3"), HasSubstr("throw_on_early_termination")));
    EXPECT_EQ(steps, 1);
    model->zero_grad();
    data.loss(model, group->rank(), 0).backward();  // and training can go on
    const auto all = group->all_gather(model->parameters()[0].grad());
    EXPECT_TRUE(torch::equal(all[0], all[2]));
  });
}

TEST(Join, IsEndedBeforeAModelGoesOnOverAnotherGroup) {
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    Sequential model = uneven_net();
    const auto trained = DataParallel::attach(model.ptr(), group, {}, nullptr);
    std::optional<Join> join(std::in_place, std::vector<std::shared_ptr<ParallelModel>>{trained}, group, JoinOptions());
    EXPECT_THAT(message_of<UsageError>([&] { trained->rebuild(group); }), HasSubstr("join()"));
    join.reset();
    trained->rebuild(group);
  });
}

TEST(Join, RefusesWhatHasNoShadow) {
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    Sequential model(torch::nn::Linear(2, 2), nn::SyncBatchNorm1d(2));
    const auto trained = DataParallel::attach(model.ptr(), group, {}, nullptr);
    EXPECT_THAT(message_of<ConfigError>([&] { Join({trained}, group, {}); }), HasSubstr("SyncBatchNorm"));
  });
}

}  // namespace
}  // namespace paceline::parallel
