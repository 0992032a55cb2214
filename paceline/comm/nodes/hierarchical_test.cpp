#include <gmock/gmock.h>

#include <functional>
#include <future>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "paceline/comm/nodes/nodes_fixture.h"
#include "paceline/testing/group_conformance.h"

namespace paceline::comm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::GroupConformance;
using ::testing::HasSubstr;
using ::testing::Values;
using testing::Worlds;

Groups on_mixed_nodes(int64_t world_size) {
  std::vector<const char*> nodes{"a", "b", "a", "c"};
  nodes.resize(static_cast<size_t>(world_size));
  return on_nodes(nodes);
}

INSTANTIATE_TEST_SUITE_P(OnTwoNodes, GroupConformance, Values(Worlds{&on_two_nodes, {3, 4, 5}}));
INSTANTIATE_TEST_SUITE_P(OnMixedNodes, GroupConformance, Values(Worlds{&on_mixed_nodes, {2, 4}}));

torch::Tensor random_of(int64_t rank, int64_t elements) {
  torch::manual_seed(static_cast<uint64_t>(rank) + 1);
  return torch::randn({elements});
}

std::string backend_of(const Group& group) {
  return group.process_group()->getBackend(torch::kCPU)->getBackendName();
}

// Also where each is alone: programs may ask for the same everywhere.
TEST(Hierarchical, IsWhatRanksOfSeveralNodesHave) {
  const Groups two = on_nodes({"a", "a", "b"}), alone = on_nodes({"a", "b"});
  EXPECT_EQ(backend_of(*two.front()), "paceline");
  EXPECT_EQ(backend_of(*alone.front()), "paceline");
}

TEST(Hierarchical, LargeTensorsHaveTheSameBitsOnAllRanksAndTheRightValues) {
  constexpr int64_t kElements = (int64_t{9} << 20) / 4 + 5;  // three pieces, the last of them small
  std::vector<torch::Tensor> inputs, sums(5), copies(5);
  torch::Tensor expected = torch::zeros({kElements}, torch::kFloat64);
  for (int64_t rank = 0; rank < 5; ++rank) {
    inputs.push_back(random_of(rank, kElements));
    expected += inputs.back().to(torch::kFloat64);
  }
  testing::run_ranks(on_two_nodes(5), [&](const std::shared_ptr<Group>& group) {
    const auto rank = static_cast<size_t>(group->rank());
    sums[rank] = inputs[rank].clone();
    group->all_reduce(sums[rank], ReduceOp::sum);
    copies[rank] = inputs[rank].clone();
    group->broadcast(copies[rank], 3);
    torch::Tensor whole = torch::zeros({5, kElements});
    group->all_gather_into(whole, inputs[rank]);
    for (int64_t other = 0; other < 5; ++other) EXPECT_TRUE(torch::equal(whole[other], inputs[other]));
  });
  EXPECT_TRUE(torch::allclose(sums[0].to(torch::kFloat64), expected, 1e-4, 1e-4));
  for (size_t rank = 0; rank < 5; ++rank) {
    EXPECT_TRUE(torch::equal(sums[rank], sums[0])) << rank;
    EXPECT_TRUE(torch::equal(copies[rank], inputs[3])) << rank;
  }
}

// destroy_process_group() calls it.
TEST(Hierarchical, WhatNobodyWaitsForComesToItsEndBeforeAShutdown) {
  std::promise<void> is_called;
  const std::shared_future<void> called = is_called.get_future().share();
  Groups groups = on_nodes({"a", "b", "b"});
  std::vector<std::future<void>> ranks;
  for (std::shared_ptr<Group>& given : groups) {
    ranks.push_back(std::async(std::launch::async, [&, group = std::exchange(given, nullptr)]() mutable {
      std::vector<torch::Tensor> sent{torch::full({4}, group->rank() == 0 ? 7.0 : 0.0)};
      if (group->rank() == 0) {
        group->process_group()->broadcast(sent);
        is_called.set_value();
        group->process_group()->shutdown();
      } else {
        called.get();
        group->process_group()->broadcast(sent)->wait();
      }
      EXPECT_TRUE(sent[0].equal(torch::full({4}, 7.0))) << group->rank();
      group.reset();
    }));
  }
  for (auto& rank : ranks) rank.get();
}

// What c10d can ask for, and Group does not.
TEST(Hierarchical, ReducesAsSharedMemoryDoes) {
  testing::run_ranks(on_two_nodes(5), [](const std::shared_ptr<Group>& group) {
    const auto reduced = [&](torch::Tensor tensor, const c10d::ReduceOp& op) {
      std::vector<torch::Tensor> tensors{tensor};
      c10d::AllreduceOptions options;
      options.reduceOp = op;
      group->process_group()->allreduce(tensors, options)->wait();
      return tensor;
    };
    const auto own = static_cast<double>(group->rank());
    // Sums that leave the types' ranges, means without a fraction.
    EXPECT_EQ(reduced(torch::full({3}, 200 + own, torch::kUInt8), c10d::ReduceOp::AVG)[1].item<int64_t>(), 202);
    EXPECT_EQ(reduced(torch::full({3}, -own - 1, torch::kInt16), c10d::ReduceOp::AVG)[2].item<int64_t>(), -3);
    EXPECT_EQ(reduced(torch::full({3}, 60'000, torch::kHalf), c10d::ReduceOp::AVG)[0].item<double>(), 60'000);
    EXPECT_EQ(reduced(torch::full({3}, own, torch::kFloat32), c10d::ReduceOp::AVG)[0].item<double>(), 2);
    EXPECT_EQ(reduced(torch::full({3}, own, torch::kInt16), c10d::ReduceOp::SUM)[0].item<double>(), 10);
    EXPECT_EQ(
        reduced(torch::full({2, 2}, 1 << group->rank(), torch::kInt32).t(), c10d::ReduceOp::BOR)[1][0].item<int>(), 31);
    EXPECT_FALSE(reduced(torch::full({2}, group->rank() < 4, torch::kBool), c10d::ReduceOp::BXOR)[0].item<bool>());
    EXPECT_TRUE(reduced(torch::full({2}, group->rank() == 4, torch::kBool), c10d::ReduceOp::SUM)[0].item<bool>());
    EXPECT_EQ(reduced(torch::ones({3}), c10d::makePreMulSum(0.5))[0].item<double>(), 2.5);
    EXPECT_THROW(reduced(torch::ones({3}, torch::kComplexFloat), c10d::ReduceOp::PRODUCT), c10::ValueError);
    for (const int64_t root : {0, 1, 4}) {
      std::vector<torch::Tensor> tensors{torch::full({3}, own)};
      c10d::ReduceOptions options;
      options.rootRank = root;
      group->process_group()->reduce(tensors, options)->wait();
      EXPECT_EQ(tensors[0][0].item<double>(), group->rank() == root ? 10 : own);
    }
  });
}

TEST(Hierarchical, PartsMayHaveSizesOfTheirOwn) {
  testing::run_ranks(on_two_nodes(5), [](const std::shared_ptr<Group>& group) {
    const auto process_group = group->process_group();
    const auto own = static_cast<size_t>(group->rank());
    std::vector<std::vector<torch::Tensor>> parts(1);
    for (int64_t rank = 0; rank < 5; ++rank) parts[0].push_back(torch::full({rank}, rank));
    std::vector<torch::Tensor> output{torch::zeros({group->rank()}, torch::kInt64)};
    process_group->reduce_scatter(output, parts)->wait();
    EXPECT_TRUE(torch::equal(output[0], torch::full({group->rank()}, 5 * group->rank())));
    std::vector<torch::Tensor> input{parts[0][own].clone()};
    for (torch::Tensor& part : parts[0]) part.zero_();
    process_group->allgather(parts, input)->wait();
    for (int64_t rank = 0; rank < 5; ++rank) {
      EXPECT_TRUE(torch::equal(parts[0][static_cast<size_t>(rank)], torch::full({rank}, rank))) << rank;
    }
    EXPECT_THROW(process_group->allgather(parts, output = {torch::zeros({7}, torch::kInt64)}), c10::ValueError);
  });
}

TEST(Hierarchical, WorksOnTheSameMemoryComeOneAfterTheOther) {
  testing::run_ranks(on_two_nodes(4), [](const std::shared_ptr<Group>& group) {
    for (const torch::Tensor& values : {torch::ones({4}), torch::ones({3 << 20}), torch::ones({100, 3}).t()}) {
      std::vector<torch::Tensor> tensors{values};
      std::vector<c10::intrusive_ptr<c10d::Work>> works;
      for (int i = 0; i < 3; ++i) works.push_back(group->process_group()->allreduce(tensors));
      for (const auto& work : works) work->wait();
      EXPECT_TRUE(torch::equal(values, torch::full_like(values, 64)));
    }
  });
}

TEST(Hierarchical, ACallThatDiffersWithinANodeIsToldWhoCalledWhat) {
  const Groups groups = on_nodes({"a", "a", "b", "b"});
  testing::run_ranks(groups, [](const std::shared_ptr<Group>& group) {
    torch::Tensor tensor = torch::ones({group->rank() == 3 ? 2 : 3});
    EXPECT_THAT(testing::failure_of([&] { group->all_reduce(tensor, ReduceOp::sum); }).what(),
                AllOf(HasSubstr("rank 2 calls"), HasSubstr("rank 3 calls")));
  });
}

// What each of these ranks is told when it calls what `call` does.
std::vector<std::string> told_of(const Groups& groups, const std::function<void(Group&)>& call) {
  std::vector<std::string> told(groups.size());
  testing::run_ranks(groups, [&](const std::shared_ptr<Group>& group) {
    told[static_cast<size_t>(group->rank())] = testing::failure_of([&] { call(*group); }).what();
  });
  return told;
}

TEST(Hierarchical, ACallThatDiffersBetweenNodesIsToldWhoCalledWhat) {
  const auto types = told_of(on_nodes({"a", "a", "b", "b"}), [](Group& group) {
    torch::Tensor tensor = torch::ones({3}, group.rank() < 2 ? torch::kFloat32 : torch::kInt32);
    group.all_reduce(tensor, ReduceOp::sum);
  });
  for (const std::string& told : types) {
    EXPECT_THAT(told, AllOf(HasSubstr("rank 0 calls all_reduce(sum) of 3 float32"),
                            HasSubstr("rank 2 calls all_reduce(sum) of 3 int32")));
  }
  const auto kinds = told_of(on_nodes({"a", "b", "c"}), [](Group& group) {
    torch::Tensor tensor = torch::ones({3});
    if (group.rank() == 1) return group.broadcast(tensor, 0);
    group.all_reduce(tensor, ReduceOp::sum);
  });
  for (const std::string& told : kinds) {
    EXPECT_THAT(told, AllOf(HasSubstr("calls all_reduce(sum) of 3 float32"),
                            HasSubstr("rank 1 calls broadcast of 12 uint8 (12 B) with root 0")));
  }
}

// What goes between all ranks and what goes by way of the leaders, within a node and between nodes.
TEST(Hierarchical, CallsOfDifferentWaysDoNotFitTogether) {
  for (const std::vector<const char*>& nodes : {std::vector<const char*>{"a", "a", "b"}, {"a", "b", "b"}}) {
    const auto told = told_of(on_nodes(nodes), [](Group& group) {
      torch::Tensor tensor = torch::ones({3}), whole = torch::zeros({3});
      if (group.rank() == 1) return group.all_to_all(whole, tensor);
      group.all_reduce(tensor, ReduceOp::sum);
    });
    for (const std::string& one : told) {
      EXPECT_THAT(one, AllOf(HasSubstr("calls all_reduce(sum) of 3 float32"), HasSubstr("rank 1 calls all_to_all")));
    }
  }
}

// A broadcast from another node only goes down where a reduction goes up first; and what is empty goes nowhere.
TEST(Hierarchical, CallsThatGoOtherWaysWithinANodeDoNotFitTogether) {
  const auto sources = told_of(on_nodes({"a", "a", "b", "b"}), [](Group& group) {
    torch::Tensor tensor = torch::ones({3});
    if (group.rank() == 3) return group.broadcast(tensor, 0);
    group.all_reduce(tensor, ReduceOp::sum);
  });
  for (const std::string& told : sources) {
    EXPECT_THAT(told,
                AllOf(HasSubstr("rank 2 calls all_reduce(sum) of 3 float32"), HasSubstr("rank 3 calls broadcast")));
  }
  const auto sizes = told_of(on_nodes({"a", "a", "b", "b"}), [](Group& group) {
    std::vector<torch::Tensor> tensors{torch::ones({group.rank() == 1 ? 0 : 5})};
    group.process_group()->allreduce(tensors)->wait();
  });
  for (const std::string& told : sizes) {
    EXPECT_THAT(told,
                AllOf(HasSubstr("rank 0 calls all_reduce(sum) of 5"), HasSubstr("rank 1 calls all_reduce(sum) of 0")));
  }
}

TEST(Hierarchical, AGatherIntoAListFitsOneIntoATensor) {
  for (const int64_t odd : {1, 2, 3}) {
    testing::run_ranks(on_nodes({"a", "a", "b", "b"}), [odd](const std::shared_ptr<Group>& group) {
      const torch::Tensor own = torch::full({5}, group->rank());
      torch::Tensor whole = torch::zeros({20}, torch::kInt64);
      if (group->rank() == odd) {
        whole = torch::cat(group->all_gather(own));
      } else {
        group->all_gather_into(whole, own);
      }
      for (int64_t rank = 0; rank < 4; ++rank) EXPECT_EQ(whole[5 * rank + 4].item<int64_t>(), rank);
    });
  }
}

TEST(Hierarchical, StridesAreAsOnOneMachine) {
  testing::run_ranks(on_two_nodes(4), [](const std::shared_ptr<Group>& group) {
    const auto process_group = group->process_group();
    const int64_t own = group->rank();
    const auto every_second = [](torch::Tensor& whole) { return whole.slice(0, 0, 8, 2); };
    const auto expect_every_second = [](const torch::Tensor& whole, const torch::Tensor& values) {
      EXPECT_TRUE(torch::equal(whole.slice(0, 0, 8, 2), values)) << whole;
      EXPECT_TRUE(torch::equal(whole.slice(0, 1, 8, 2), torch::full({4}, -1))) << whole;
    };
    torch::Tensor whole = torch::full({8}, -1);
    std::vector<torch::Tensor> tensors{every_second(whole)};
    std::vector<std::vector<torch::Tensor>> lists;
    if (own == 2) {
      lists.emplace_back();
      for (int64_t rank = 0; rank < 4; ++rank) {
        torch::Tensor from = torch::arange(8 * rank, 8 * rank + 8);
        lists.front().push_back(every_second(from));
      }
    }
    c10d::ScatterOptions options;
    options.rootRank = 2;
    process_group->scatter(tensors, lists, options)->wait();
    expect_every_second(whole, torch::arange(8 * own, 8 * own + 8, 2));

    whole.fill_(-1);
    torch::Tensor given = torch::arange(8) + 10 * own;
    group->all_to_all(every_second(whole), every_second(given));
    expect_every_second(whole, torch::arange(4) * 10 + 2 * own);

    whole.fill_(-1);
    tensors = {every_second(own == 0 ? given : whole)};
    if (own == 0) process_group->send(tensors, 3, 0)->wait();
    if (own != 3) return;
    process_group->recv(tensors, 0, 0)->wait();
    expect_every_second(whole, torch::arange(0, 8, 2));
  });
}

TEST(Hierarchical, AnAllToAllWhoseSizesDoNotFitIsToldWhoSendsWhat) {
  for (const int64_t rows : {1, 3, 100'000}) {  // less and more than the two that rank 3 wants
    const auto told = told_of(on_two_nodes(4), [rows](Group& group) {
      std::vector<int64_t> sends(4, 2), receives(4, 2);
      if (group.rank() == 0) sends[3] = rows;
      torch::Tensor given = torch::ones({group.rank() == 0 ? 6 + rows : 8}), whole = torch::zeros({8});
      group.process_group()->getBackend(torch::kCPU)->alltoall_base(whole, given, receives, sends)->wait();
    });
    for (const std::string& one : told) {
      EXPECT_THAT(one, HasSubstr("rank 0 sends " + std::to_string(4 * rows) + " bytes to rank 3, which wants 8"));
    }
  }
}

// Works of another group may come between them on other ranks.
TEST(Hierarchical, WorksThatReadTheSameMemoryDoNotWaitForEachOther) {
  const Groups groups = on_two_nodes(4);
  const auto broadcast = [](Group& group, torch::Tensor& tensor) {
    std::vector<torch::Tensor> tensors{tensor};
    return group.process_group()->broadcast(tensors);
  };
  torch::Tensor values = torch::full({4}, 7);
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  for (int i = 0; i < 3; ++i) works.push_back(broadcast(*groups[0], values));  // nobody else has called any
  testing::run_ranks({groups[1], groups[2], groups[3]}, [&](const std::shared_ptr<Group>& group) {
    torch::Tensor tensor = torch::zeros({4}, torch::kInt64);
    for (int i = 0; i < 3; ++i) broadcast(*group, tensor)->wait();
    EXPECT_EQ(tensor.sum().item<int64_t>(), 28);
  });
  for (const auto& work : works) work->wait();
}

// The last to let go of a group may be what its last work calls.
TEST(Hierarchical, MayBeDestroyedAsSoonAsItsLastWorkIsOver) {
  for (int round = 0; round < 5; ++round) {
    Groups groups = on_nodes({"a", "a", "b", "b"});
    std::vector<std::future<void>> ranks;
    for (auto& group : groups) {
      ranks.push_back(std::async(std::launch::async, [own = std::move(group)]() mutable {
        torch::Tensor whole = torch::zeros({4});
        own->all_to_all(whole, torch::ones({4}));
        own.reset();
      }));
    }
    groups.clear();
    for (auto& rank : ranks) rank.get();
  }
}

TEST(Hierarchical, WhatGoesBetweenAllRanksComesInOrderToo) {
  testing::run_ranks(on_two_nodes(4), [](const std::shared_ptr<Group>& group) {
    std::vector<torch::Tensor> values{torch::ones({3 << 20})};
    const auto first = group->process_group()->allreduce(values);
    std::vector<std::vector<torch::Tensor>> all(group->rank() == 3 ? 1 : 0);
    for (torch::Tensor& one : values) {
      if (!all.empty()) all[0] = {one.clone(), one.clone(), one.clone(), one.clone()};
    }
    c10d::GatherOptions options;
    options.rootRank = 3;
    const auto second = group->process_group()->gather(all, values, options);
    second->wait();
    first->wait();
    for (const auto& list : all) {
      for (const torch::Tensor& one : list) EXPECT_EQ(one.min().item<double>(), 4);
    }
  });
}

TEST(Hierarchical, ListsGoToAll) {
  testing::run_ranks(on_two_nodes(3), [](const std::shared_ptr<Group>& group) {
    const int64_t own = group->rank();
    std::vector<torch::Tensor> inputs, outputs;
    for (int64_t rank = 0; rank < 3; ++rank) {
      inputs.push_back(torch::full({own + rank, 2}, 10 * own + rank));
      outputs.push_back(torch::zeros({2, own + rank}, torch::kInt64).t());
    }
    group->process_group()->alltoall(outputs, inputs)->wait();
    for (int64_t rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(torch::equal(outputs[static_cast<size_t>(rank)], torch::full({own + rank, 2}, 10 * rank + own)));
    }
  });
}

TEST(Hierarchical, CountsItsCollectivesOnAllRanks) {
  const SystemClock clock;
  std::vector<Progress> progress;
  for (int rank = 0; rank < 3; ++rank) progress.push_back(Progress::create(clock).ValueOrDie());
  rpc::MemoryKeyValueStore store;
  std::vector<std::future<void>> ranks;
  for (const int64_t rank : {0, 1, 2}) {
    ranks.push_back(std::async(std::launch::async, [&, rank, client = store.client(kOneGeneration)] {
      GroupOptions options;
      options.rank = rank;
      options.world_size = 3;
      options.node = rank == 2 ? "b" : "a";
      options.timeout = std::chrono::minutes(1);
      options.progress = &progress[static_cast<size_t>(rank)];
      const auto group = Group::create(options, client);
      torch::Tensor tensor = torch::ones({3}), part = torch::zeros({1});
      group->all_reduce(tensor, ReduceOp::sum);
      group->reduce_scatter(part, tensor, ReduceOp::sum);
      group->all_to_all(tensor, torch::zeros({3}));
      group->barrier();
      group->split({0, 1, 2})->barrier();  // of its own
      const auto reader =
          ProgressReader::open(options.progress->memory().descriptor().duplicate().ValueOrDie()).ValueOrDie();
      EXPECT_THAT(reader.read(clock.monotonic()).groups, ElementsAre(GroupReading{1, 4, 4, Collective::barrier}));
    }));
  }
  for (auto& rank : ranks) rank.get();
}

}  // namespace
}  // namespace paceline::comm
