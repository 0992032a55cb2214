// What every comm::Group does, whatever its backend and however its ranks met.
//
//     INSTANTIATE_TEST_SUITE_P(InProcess, GroupConformance, Values(Worlds{&comm::Group::in_process, {1, 2, 3}}));
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

#include "paceline/core/error.h"
#include "paceline/testing/group_conformance_sharding.h"
#include "paceline/testing/group_worlds.h"

namespace paceline::testing {

TEST_P(GroupConformance, KnowsItsPlace) {
  for (const int64_t size : GetParam().sizes) {
    const auto groups = GetParam().make_groups(size);
    ASSERT_EQ(static_cast<int64_t>(groups.size()), size);
    for (int64_t rank = 0; rank < size; ++rank) {
      EXPECT_EQ(groups[rank]->rank(), rank);
      EXPECT_EQ(groups[rank]->size(), size);
    }
  }
}

TEST_P(GroupConformance, ReducesEveryTypeWithEveryOperation) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    const int64_t n = world();
    int64_t factorial = 1;
    for (int64_t i = 2; i <= n; ++i) factorial *= i;
    for (const auto dtype : kReducibleTypes) {
      auto reduce = [&](comm::ReduceOp op) {
        torch::Tensor tensor = torch::full({2, 3}, group->rank() + 1, dtype);
        group->all_reduce(tensor, op);
        EXPECT_EQ(tensor.scalar_type(), dtype);
        return tensor.to(torch::kFloat64).max().item<double>();
      };
      EXPECT_EQ(reduce(comm::ReduceOp::sum), n * (n + 1) / 2.0) << dtype;
      EXPECT_EQ(reduce(comm::ReduceOp::min), 1) << dtype;
      EXPECT_EQ(reduce(comm::ReduceOp::max), n) << dtype;
      if (factorial < 128) {  // the range of int8
        EXPECT_EQ(reduce(comm::ReduceOp::product), factorial) << dtype;
      }
      if (torch::isFloatingType(dtype)) {
        EXPECT_EQ(reduce(comm::ReduceOp::mean), (n + 1) / 2.0) << dtype;
      }
    }
  });
}

TEST_P(GroupConformance, ReducesTruthValuesAsAnyAndAll) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    const bool first = group->rank() == 0;
    torch::Tensor any = torch::tensor({first, false, true});
    group->all_reduce(any, comm::ReduceOp::sum);
    EXPECT_TRUE(torch::equal(any, torch::tensor({true, false, true})));
    torch::Tensor all = torch::tensor({first, false, true});
    group->all_reduce(all, comm::ReduceOp::product);
    EXPECT_TRUE(torch::equal(all, torch::tensor({world() == 1, false, true})));
  });
}

TEST_P(GroupConformance, RefusesWhatHasNoMeaning) {
  on_all_ranks([](const std::shared_ptr<comm::Group>& group) {
    torch::Tensor counts = torch::ones({2}, torch::kInt64);
    EXPECT_THAT(message_of<CollectiveError>([&] { group->all_reduce(counts, comm::ReduceOp::mean); }),
                ::testing::AllOf(::testing::HasSubstr("mean"), ::testing::HasSubstr("Long")));
    torch::Tensor shorts = torch::ones({2}, torch::kInt16);
    EXPECT_THAT(message_of<CollectiveError>([&] { group->all_reduce(shorts, comm::ReduceOp::sum); }),
                ::testing::HasSubstr("Short"));
    torch::Tensor value = torch::ones({2});
    EXPECT_THROW(group->broadcast(value, group->size()), CollectiveError);
    group->barrier();  // nobody is left waiting: all refused before anything was sent
  });
}

TEST_P(GroupConformance, WorksInPlaceOnTensorsThatAreNotContiguous) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    torch::Tensor base = torch::zeros({4, 6});
    torch::Tensor columns = base.t().slice(0, 0, 6, 2);
    columns.fill_(1);
    group->all_reduce(columns, comm::ReduceOp::sum);
    EXPECT_EQ(base.sum().item<double>(), 12.0 * world());

    torch::Tensor one = torch::full({1, 2}, static_cast<double>(group->rank())).select(1, 1);  // with a stride of 2
    group->broadcast(one, world() - 1);
    EXPECT_EQ(one.item<double>(), static_cast<double>(world() - 1));
    EXPECT_EQ(group->all_gather(one).front().item<double>(), static_cast<double>(world() - 1));

    torch::Tensor strided = torch::full({3, 4}, static_cast<double>(group->rank())).t();
    group->broadcast(strided, world() - 1);
    EXPECT_TRUE((strided == static_cast<double>(world() - 1)).all().item<bool>());
    EXPECT_TRUE(torch::equal(group->all_gather(strided.slice(1, 0, 2)).back(), strided.slice(1, 0, 2)));
  });
}

TEST_P(GroupConformance, LeavesParametersTrainable) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    torch::Tensor parameter = torch::full({3}, static_cast<double>(group->rank()), torch::requires_grad());
    group->broadcast(parameter, 0);
    EXPECT_TRUE(parameter.requires_grad() && parameter.is_leaf());
    EXPECT_EQ(parameter.sum().item<double>(), 0);
    group->all_reduce(parameter, comm::ReduceOp::sum);
    EXPECT_TRUE(parameter.requires_grad() && parameter.is_leaf());
  });
}

TEST_P(GroupConformance, GathersByRankAnyTypeAndShape) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    for (const auto dtype : {torch::kFloat32, torch::kInt16, torch::kBool, torch::kComplexFloat, torch::kBFloat16}) {
      for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {3, 2}, {0, 4}}) {
        const auto gathered = group->all_gather(torch::full(shape, group->rank() % 2, torch::kInt64).to(dtype));
        ASSERT_EQ(static_cast<int64_t>(gathered.size()), world());
        for (int64_t rank = 0; rank < world(); ++rank) {
          EXPECT_TRUE(torch::equal(gathered[rank], torch::full(shape, rank % 2, torch::kInt64).to(dtype))) << dtype;
        }
      }
    }
  });
}

TEST_P(GroupConformance, ADuplicatesCollectivesNeedNoOrderAmongItsOwn) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    const auto duplicate = group->duplicate();
    EXPECT_EQ(duplicate->rank(), group->rank());
    EXPECT_EQ(duplicate->size(), group->size());
    torch::Tensor ones = torch::ones({3}), twos = torch::full({5}, 2.0);
    const auto first = std::async(std::launch::async, [&] {
      (group->rank() == 0 ? group : duplicate)->all_reduce(group->rank() == 0 ? ones : twos, comm::ReduceOp::sum);
    });
    (group->rank() == 0 ? duplicate : group)->all_reduce(group->rank() == 0 ? twos : ones, comm::ReduceOp::sum);
    first.wait();
    EXPECT_EQ(ones.sum().item<double>(), 3.0 * world());
    EXPECT_EQ(twos.sum().item<double>(), 10.0 * world());
  });
}

TEST_P(GroupConformance, GathersTextsOfDifferentLengths) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    const auto texts = comm::all_gather_text(*group, std::string(group->rank() * 3, 'x'));
    ASSERT_EQ(static_cast<int64_t>(texts.size()), world());
    for (int64_t rank = 0; rank < world(); ++rank) EXPECT_EQ(texts[rank], std::string(rank * 3, 'x'));
  });
}

TEST_P(GroupConformance, BroadcastsManyTensorsOfMixedTypesTogether) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    for (int64_t root = 0; root < world(); ++root) {
      const auto own = static_cast<double>(group->rank() * 10);
      std::vector<torch::Tensor> tensors = {torch::full({3}, own),
                                            torch::full({2, 2}, own).to(torch::kInt16),
                                            torch::full({}, own).to(torch::kInt64),
                                            torch::empty({0}),
                                            torch::full({4, 5}, own).t(),
                                            torch::full({2}, own).to(torch::kBool)};
      group->broadcast_coalesced(tensors, root);
      for (const auto& tensor : tensors) {
        EXPECT_TRUE((tensor == torch::full({}, root * 10.0).to(tensor.scalar_type())).all().item<bool>()) << tensor;
      }
    }
  });
}

TEST_P(GroupConformance, ABarrierLetsNobodyThroughBeforeTheLast) {
  std::atomic<int64_t> arrived{0};
  on_all_ranks([&](const std::shared_ptr<comm::Group>& group) {
    const int64_t before = arrived;
    group->barrier();
    for (int64_t round = 1; round <= 10; ++round) {
      ++arrived;
      group->barrier();
      EXPECT_GE(arrived.load(), before + round * world());
      group->barrier();
    }
  });
}

TEST_P(GroupConformance, AbortEndsACollectiveThatWaits) {
  auto groups = GetParam().make_groups(3);
  // Rank 0 waits in a collective that the others never enter.
  std::promise<void> entered;
  auto waiting = std::async(std::launch::async, [&] {
    torch::Tensor tensor = torch::ones({1000});
    entered.set_value();
    return failure_of([&] { groups[0]->all_reduce(tensor, comm::ReduceOp::sum); });
  });
  entered.get_future().wait();
  groups[0]->abort();
  ASSERT_EQ(waiting.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  const CollectiveError stopped = waiting.get();
  EXPECT_THAT(stopped.what(), ::testing::AllOf(::testing::HasSubstr("all_reduce"), ::testing::HasSubstr("rank 0 of"),
                                               ::testing::HasSubstr("told to stop")));
  EXPECT_EQ(stopped.cause(), CollectiveCause::stopped);
  groups[0]->abort();  // once more does nothing
  torch::Tensor tensor = torch::ones({1000});
  EXPECT_EQ(failure_of([&] { groups[0]->broadcast(tensor, 0); }).cause(), CollectiveCause::stopped);
  EXPECT_EQ(failure_of([&] { groups[1]->all_reduce(tensor, comm::ReduceOp::sum); }).cause(),
            CollectiveCause::other_rank);
  EXPECT_EQ(failure_of([&] { groups[2]->broadcast(tensor, 7); }).cause(), CollectiveCause::this_rank);
}

TEST_P(GroupConformance, AnAbortEndsWhatADuplicateWaitsFor) {
  std::vector<std::shared_ptr<comm::Group>> duplicates(2);  // rank 1's stays, although rank 1 does not come
  run_ranks(GetParam().make_groups(2), [&](const std::shared_ptr<comm::Group>& group) {
    const auto& duplicate = duplicates[group->rank()] = group->duplicate();
    if (group->rank() != 0) return;
    auto waiting = std::async(std::launch::async, [&] { return failure_of([&] { duplicate->barrier(); }); });
    group->abort();
    EXPECT_EQ(waiting.get().cause(), CollectiveCause::stopped);
    EXPECT_EQ(failure_of([&] { group->duplicate(); }).cause(), CollectiveCause::stopped);
  });
}

}  // namespace paceline::testing
