#include "paceline/collective/group.h"

#include <gmock/gmock.h>

#include <barrier>
#include <csignal>
#include <cstring>
#include <functional>
#include <future>
#include <numeric>
#include <random>

#include "paceline/collective/ranks_fixture.h"
#include "paceline/core/peer_lost.h"
#include "paceline/testing/in_fork.h"

namespace paceline::collective {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

int64_t of(int rank, size_t i) {
  return 1000 * (rank + 1) + static_cast<int64_t>(i % 977);
}

struct Case {
  int world_size = 2;
  size_t count = 1;
  Place place = Place::heap;
  bool may_read_others = true;
};

class Collectives : public ::testing::TestWithParam<Case> {
 protected:
  void on_ranks(const std::function<void(SharedGroup&)>& rank) {
    on_threads(GetParam().world_size, rank, GetParam().may_read_others);
  }
  size_t count() const { return GetParam().count; }
  int64_t sum_at(size_t i) const {
    int64_t sum = 0;
    for (int rank = 0; rank < GetParam().world_size; ++rank) sum += of(rank, i);
    return sum;
  }
  std::unique_ptr<Buffer> filled(SharedGroup& group, size_t count) const {
    auto buffer = std::make_unique<Buffer>(group, GetParam().place, count);
    for (size_t i = 0; i < count; ++i) (*buffer)[i] = of(group.rank(), i);
    return buffer;
  }
};

TEST_P(Collectives, AllReduceGivesEveryRankTheSum) {
  on_ranks([&](SharedGroup& group) {
    for (int round = 0; round < 3; ++round) {
      const auto values = filled(group, count());
      run(group, request(Kind::all_reduce, values.get(), count(), {values->data()}));
      for (size_t i = 0; i < count(); ++i) ASSERT_EQ((*values)[i], sum_at(i)) << i;
    }
  });
}

TEST_P(Collectives, ReduceGivesTheRootTheSumAndLeavesTheOthers) {
  on_ranks([&](SharedGroup& group) {
    const int root = group.size() - 1;
    const auto values = filled(group, count());
    std::vector<void*> outputs;
    if (group.rank() == root) outputs.push_back(values->data());
    run(group, request(Kind::reduce, values.get(), count(), outputs, root));
    for (size_t i = 0; i < count(); ++i) {
      ASSERT_EQ((*values)[i], group.rank() == root ? sum_at(i) : of(group.rank(), i));
    }
  });
}

TEST_P(Collectives, BroadcastGivesAllWhatTheRootHas) {
  on_ranks([&](SharedGroup& group) {
    for (int root = 0; root < group.size(); ++root) {
      const auto values = filled(group, count());
      const bool is_root = group.rank() == root;
      run(group, request(Kind::broadcast, is_root ? values.get() : nullptr, count(),
                         is_root ? std::vector<void*>() : std::vector<void*>{values->data()}, root));
      for (size_t i = 0; i < count(); ++i) ASSERT_EQ((*values)[i], of(root, i));
    }
  });
}

TEST_P(Collectives, AllGatherAndGatherGiveWhatAllHave) {
  on_ranks([&](SharedGroup& group) {
    const auto values = filled(group, count());
    for (const Kind kind : {Kind::all_gather, Kind::gather}) {
      const bool gets = kind == Kind::all_gather || group.rank() == 0;
      std::vector<std::vector<int64_t>> all(static_cast<size_t>(group.size()), std::vector<int64_t>(count()));
      std::vector<void*> outputs;
      for (auto& one : all) outputs.push_back(one.data());
      run(group,
          request(kind, values.get(), count(), gets ? outputs : std::vector<void*>(), kind == Kind::gather ? 0 : -1));
      if (!gets) continue;
      for (int rank = 0; rank < group.size(); ++rank) {
        for (size_t i = 0; i < count(); ++i) ASSERT_EQ(all[static_cast<size_t>(rank)][i], of(rank, i));
      }
    }
  });
}

TEST_P(Collectives, ScatterAndReduceScatterGiveEachRankItsPart) {
  on_ranks([&](SharedGroup& group) {
    const auto ranks = static_cast<size_t>(group.size());
    const auto own = static_cast<size_t>(group.rank());
    const auto values = filled(group, count() * ranks);
    Buffer part(group, GetParam().place, count());
    run(group, request(Kind::scatter, group.rank() == 0 ? values.get() : nullptr, count(), {part.data()}, 0));
    for (size_t i = 0; i < count(); ++i) ASSERT_EQ(part[i], of(0, own * count() + i));
    run(group, request(Kind::reduce_scatter, values.get(), count(), {part.data()}));
    for (size_t i = 0; i < count(); ++i) ASSERT_EQ(part[i], sum_at(own * count() + i));
  });
}

TEST_P(Collectives, AllToAllExchangesPartsOfAnySize) {
  on_ranks([&](SharedGroup& group) {
    const auto ranks = static_cast<size_t>(group.size());
    // Rank r sends (r + q) % ranks times `count` values to rank q.
    const auto size = [&](size_t from, size_t to) { return (from + to) % ranks * count(); };
    const auto own = static_cast<size_t>(group.rank());
    Request all = request(Kind::all_to_all, nullptr, 0, {});
    size_t sent = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      sent += size(own, rank);
      all.sends.push_back(size(own, rank) * sizeof(int64_t));
      all.receives.push_back(size(rank, own) * sizeof(int64_t));
    }
    Buffer values(group, GetParam().place, std::max<size_t>(sent, 1));
    for (size_t i = 0; i < sent; ++i) values[i] = of(group.rank(), i);
    all.input = values.data();
    std::vector<std::vector<int64_t>> got(ranks);
    for (size_t rank = 0; rank < ranks; ++rank) {
      got[rank].resize(size(rank, own));
      all.outputs.push_back(got[rank].data());
    }
    run(group, std::move(all));
    for (size_t rank = 0; rank < ranks; ++rank) {
      size_t begin = 0;
      for (size_t other = 0; other < own; ++other) begin += size(rank, other);
      for (size_t i = 0; i < got[rank].size(); ++i) ASSERT_EQ(got[rank][i], of(static_cast<int>(rank), begin + i));
    }
  });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  // One value, what fits into a slot, a bit more, and several pieces with a rest.
  for (const size_t count : {1U, 8192U, 8193U, 100'003U}) {
    for (const int world_size : {1, 2, 3}) {
      for (const Place place : {Place::heap, Place::arena, Place::mixed})
        all.push_back({world_size, count, place, true});
      all.push_back({world_size, count, Place::mixed, false});
    }
  }
  all.push_back({8, 20'001, Place::mixed, true});
  all.push_back({8, 20'001, Place::heap, false});
  return all;
}

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  constexpr const char* kPlaces[] = {"Heap", "Arena", "Mixed"};
  return std::to_string(info.param.world_size) + "Ranks" + std::to_string(info.param.count) + "Values" +
         kPlaces[static_cast<int>(info.param.place)] + (info.param.may_read_others ? "" : "InPieces");
}

INSTANTIATE_TEST_SUITE_P(All, Collectives, ::testing::ValuesIn(cases()), name_of_case);

TEST(SharedGroup, ManyOperationsAreUnderWayAtOnce) {
  on_threads(3, [](SharedGroup& group) {
    std::mt19937 random(3);  // the same on all ranks
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::vector<std::shared_ptr<Operation>> operations;
    for (int i = 0; i < 100; ++i) {
      const size_t count = random() % 3 == 0 ? 30'000 : 1 + random() % 100;
      buffers.push_back(std::make_unique<Buffer>(group, random() % 2 == 0 ? Place::arena : Place::heap, count));
      for (size_t j = 0; j < count; ++j) (*buffers.back())[j] = of(group.rank(), j) + i;
      operations.push_back(
          group.start(request(Kind::all_reduce, buffers.back().get(), count, {buffers.back()->data()})));
    }
    // In another order on each rank.
    std::vector<size_t> order(operations.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(group.rank())));
    for (const size_t i : order) group.wait(operations[i]);
    for (size_t i = 0; i < buffers.size(); ++i) {
      Buffer& buffer = *buffers[i];
      for (size_t j = 0; j < buffer.size(); ++j) {
        ASSERT_EQ(buffer[j], of(0, j) + of(1, j) + of(2, j) + 3 * static_cast<int64_t>(i));
      }
    }
  });
}

TEST(SharedGroup, WhatIsPushedIsCarriedOutThoughNobodyWaits) {
  on_threads(2, [](SharedGroup& group) {
    int64_t value = group.rank();
    std::mutex mutex;
    std::condition_variable changed;
    bool is_over = false;
    Request small{.kind = Kind::all_reduce,
                  .what = {.element = Element::int64},
                  .elements = 1,
                  .input = &value,
                  .outputs = {&value},
                  .timeout = kTestTimeout};
    small.on_end = [&](const std::exception_ptr& failure) -> std::function<void()> {
      EXPECT_FALSE(failure);
      const std::lock_guard lock(mutex);
      is_over = true;
      changed.notify_all();
      return {};
    };
    group.push(group.start(std::move(small)));
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_over; });
    EXPECT_EQ(value, 1);
  });
}

// One may call it and compute for long before it wants the values.
TEST(SharedGroup, WhoGivesMuchDoesNotWaitForThoseWhoWaitLater) {
  constexpr uint64_t kElements = 1 << 16;
  std::promise<void> has_given;
  on_threads(2, [&](SharedGroup& group) {
    const bool is_root = group.rank() == 0;
    Buffer given(group, Place::heap, 2 * kElements), first(group, Place::heap, kElements),
        second(group, Place::heap, kElements);
    Request broadcast = request(Kind::broadcast, is_root ? &given : nullptr, kElements, {});
    Request scatter = request(Kind::scatter, is_root ? &given : nullptr, kElements, {second.data()});
    if (!is_root) broadcast.outputs = {first.data()};
    broadcast.root = scatter.root = 0;
    const auto one = group.start(std::move(broadcast)), two = group.start(std::move(scatter));
    if (!is_root) has_given.get_future().wait();
    group.wait(one);
    group.wait(two);
    if (is_root) has_given.set_value();
  });
}

// For what takes longer than its timeout.
TEST(SharedGroup, AnOperationWaitsAtItsGate) {
  std::atomic<bool> has_come = false;
  on_threads(2, [&](SharedGroup& group) {
    const auto gate = std::make_shared<std::atomic<bool>>(false);
    Request first = request(Kind::barrier, nullptr, 0, {}), second = first;
    first.gate = gate;
    const auto one = group.start(std::move(first)), two = group.start(std::move(second));
    if (group.rank() == 1) {
      has_come.wait(false);
      EXPECT_FALSE(group.wait_for(two, std::chrono::milliseconds(10)));
    } else {
      group.open(*gate);
      has_come = true;
      has_come.notify_all();
    }
    group.open(*gate);
    group.wait(two);
    EXPECT_TRUE(SharedGroup::is_over(*one));
  });
}

TEST(SharedGroup, CallsThatDifferAreRefusedNamingWhoCallsWhat) {
  on_threads(3, [](SharedGroup& group) {
    Buffer values(group, Place::heap, 100);
    Request call = request(Kind::all_reduce, &values, group.rank() == 2 ? 99 : 100, {values.data()});
    try {
      run(group, std::move(call));
      FAIL();
    } catch (const CollectiveError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("ranks 0, 1 call all_reduce(sum) of 100 int64"),
                                      HasSubstr("rank 2 calls all_reduce(sum) of 99 int64")));
    }
    EXPECT_THROW(run(group, request(Kind::barrier, nullptr, 0, {})), CollectiveError);  // it is broken
  });
}

TEST(SharedGroup, MayBeDestroyedByWhatItCalls) {
  MemoryBulletin memory;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      auto group = SharedGroup::create(memory.bulletin(), rank, 2, kTestTimeout);
      std::promise<void> destroyed;
      Request barrier = request(Kind::barrier, nullptr, 0, {});
      std::atomic<bool> is_the_last = false;
      barrier.on_end = [&](const std::exception_ptr&) -> std::function<void()> {
        return [&] {
          is_the_last.wait(false);
          group.reset();
          destroyed.set_value();
        };
      };
      group->push(group->start(std::move(barrier)));
      is_the_last = true;
      is_the_last.notify_all();
      destroyed.get_future().wait();
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

// What an operation holds may take a lock, such as Python's, that a thread has which asks the group for something.
TEST(SharedGroup, LetsGoOfWhatAnOperationHoldsWithoutItsLock) {
  on_threads(2, [](SharedGroup& group) {
    std::atomic<int> let_go = 0;
    const auto asks = [&]() -> std::shared_ptr<void> {
      return {nullptr, [&](void*) {
                (void)group.awaited(0);
                ++let_go;
              }};
    };
    Request barrier = request(Kind::barrier, nullptr, 0, {});
    barrier.keeps = asks();
    barrier.on_end = [held = asks()](const std::exception_ptr&) -> std::function<void()> { return [held] {}; };
    barrier.on_wait = [held = asks()] {};
    group.push(group.start(std::move(barrier)));
    run(group, request(Kind::barrier, nullptr, 0, {}));
    while (let_go < 3) std::this_thread::yield();
  });
}

TEST(SharedGroup, PartsOfDifferentCallsDoNotFitTogether) {
  on_threads(2, [&](SharedGroup& group) {
    Request barrier = request(Kind::barrier, nullptr, 0, {});
    barrier.whole = {.kind = group.rank() == 0 ? Kind::all_reduce : Kind::broadcast, .elements = 3};
    try {
      run(group, std::move(barrier));
      FAIL();
    } catch (const CollectiveError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 0 calls all_reduce(sum) of 3 float32"));
      EXPECT_THAT(error.what(), HasSubstr("rank 1 calls broadcast of 3 float32"));
    }
  });
}

TEST(SharedGroup, RanksOfOtherNodesAreApartAndErrorsNameRanksAsAllDo) {
  MemoryBulletin memory;
  std::vector<std::thread> ranks;
  std::barrier together(4);
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      RanksByNode found = SharedGroup::meet(memory.bulletin(), rank, 4, kTestTimeout, rank % 2 == 0 ? "even" : "odd");
      EXPECT_EQ(found.nodes, (std::vector<std::vector<int>>{{0, 2}, {1, 3}}));
      EXPECT_EQ(found.node->size(), 2);
      EXPECT_EQ(found.node->rank(), rank / 2);
      found.node->wait(found.node->start({.kind = Kind::barrier}));
      together.arrive_and_wait();
      if (rank == 3) found.node.reset();
      if (rank != 1) return;
      try {
        found.node->wait(found.node->start({.kind = Kind::barrier}));
        ADD_FAILURE() << "rank 3 is gone";
      } catch (const PeerLost& lost) {
        EXPECT_EQ(lost.ranks(), (std::vector<int64_t>{3}));
        EXPECT_THAT(lost.what(), ::testing::HasSubstr("failed on rank 1 of 4 for want of rank 3"));
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

// Such as a data loader's worker: it has the tensors, and gives them up when it ends.
TEST(SharedGroup, AForkOfARankEndsNothing) {
  if (!paceline::testing::kForksBesideThreadsMayAllocate) GTEST_SKIP() << "forks cannot allocate";
  on_threads(2, [](SharedGroup& group) {
    constexpr size_t kBytes = size_t{4} << 20;
    auto* const block = static_cast<char*>(group.arena()->allocate(kBytes).ValueOrDie());
    std::fill_n(block, kBytes, 'a');
    std::shared_ptr<SharedGroup> alias = SharedGroup::create(MemoryBulletin().bulletin(), 0, 1, kTestTimeout);
    EXPECT_TRUE(paceline::testing::holds_in_fork([&] {
      group.arena()->free(block);
      group.abort();
      alias.reset();
      const auto is_refused = [](const std::function<void()>& call) {
        try {
          call();
        } catch (const UsageError& error) {
          return std::string_view(error.what()).find("has forked") != std::string_view::npos;
        }
        return false;
      };
      return is_refused([&] { (void)group.start({.kind = Kind::barrier}); }) && is_refused([&] { group.settle(); });
    }));
    EXPECT_EQ(std::count(block, block + kBytes, 'a'), kBytes);
    group.wait(group.start({.kind = Kind::barrier}));
    alias->wait(alias->start({.kind = Kind::barrier}));
  });
}

Request sum_of(int64_t& value) {
  return {.kind = Kind::all_reduce,
          .what = {.element = Element::int64},
          .elements = 1,
          .input = &value,
          .outputs = {&value},
          .timeout = kTestTimeout};
}

// As NCCL has it: operations under way on the same memory come one after the other.
TEST(SharedGroup, WhatReadsTheResultsOfAnEarlierOperationGetsThem) {
  on_threads(3, [](SharedGroup& group) {
    for (int round = 0; round < 50; ++round) {
      int64_t value = 1;
      std::vector<std::shared_ptr<Operation>> operations;
      for (int i = 0; i < 20; ++i) operations.push_back(group.start(sum_of(value)));  // more than fit into the window
      for (const auto& operation : operations) group.wait(operation);
      EXPECT_EQ(value, 3'486'784'401);  // 3 to the power of 20
    }
  });
}

TEST(SharedGroup, WhatAnEndHasReturnedMayWaitForOtherOperations) {
  on_threads(2, [](SharedGroup& group) {
    int64_t first = 1, second = 1, third = 1;
    std::promise<void> is_over;
    Request request = sum_of(first);
    request.on_end = [&](const std::exception_ptr&) -> std::function<void()> {
      return [&] {
        std::promise<void> is_there;
        Request other = sum_of(second);
        other.on_end = [&](const std::exception_ptr&) -> std::function<void()> {
          return [&] { is_there.set_value(); };
        };
        group.push(group.start(std::move(other)));
        is_there.get_future().wait();
        is_over.set_value();
      };
    };
    group.push(group.start(std::move(request)));
    is_over.get_future().wait();
    group.wait(group.start(sum_of(third)));
    EXPECT_EQ(first + second + third, 6);
  });
}

TEST(SharedGroup, AWaitMayEndBeforeTheOperation) {
  std::promise<void> may_come;
  const std::shared_future<void> comes = may_come.get_future();
  on_threads(2, [&](SharedGroup& group) {
    int64_t value = 1;
    if (group.rank() == 1) comes.wait();
    const auto operation = group.start(sum_of(value));
    if (group.rank() == 0) {
      EXPECT_FALSE(group.wait_for(operation, std::chrono::milliseconds(1)));
      may_come.set_value();
    }
    EXPECT_TRUE(group.wait_for(operation, kTestTimeout));
    EXPECT_EQ(value, 2);
  });
}

TEST(SharedGroup, WhereARankHasNoMemoryNobodySharesAny) {
  MemoryBulletin memory;
  std::vector<std::thread> ranks;
  for (const int rank : {0, 1, 2}) {
    ranks.emplace_back([&, rank] {
      auto own = rank == 1 ? arrow::Result<std::shared_ptr<Arena>>(arrow::Status::IOError("the limit is 7 bytes"))
                           : Arena::create(1 << 20);
      const Meeting meeting = meet(memory.bulletin(), rank, 3, own, kTestTimeout).ValueOrDie();
      EXPECT_EQ(meeting.missing, "rank 1: the limit is 7 bytes");
      EXPECT_TRUE(meeting.nodes.empty());
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace paceline::collective
