// How the works of shared memory are numbered and kept in the ledger.
#include <gmock/gmock.h>

#include <functional>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "paceline/comm/callback_threads_internal.h"
#include "paceline/comm/group.h"
#include "paceline/core/clock.h"
#include "paceline/core/error.h"
#include "paceline/core/progress.h"
#include "paceline/rpc/memory_key_value.h"

namespace paceline::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tensors = std::vector<torch::Tensor>;

const Identity kWorksGeneration{.epoch = {1}, .attempt = {1}, .generation = {0}, .worker = {1}};

// A rank of two, in a thread of its own.
struct Rank {
  int64_t number = 0;
  c10::intrusive_ptr<c10d::Backend> backend;
  std::function<void()> abort;
  const ProgressReader* reader = nullptr;
  const Clock* clock = nullptr;

  GroupReading reading() const { return reader->read(clock->monotonic()).groups.at(0); }
};

// Gives what each rank's ledger has at the end.
std::vector<std::vector<CollectiveRecord>> on_two_ranks(const std::function<void(const Rank&)>& body) {
  const SystemClock clock;
  rpc::MemoryKeyValueStore store;
  std::vector<std::future<std::vector<CollectiveRecord>>> ranks;
  for (const int64_t rank : {0, 1}) {
    ranks.push_back(std::async(std::launch::async, [&, rank, client = store.client(kWorksGeneration)] {
      Progress progress = Progress::create(clock).ValueOrDie();
      const auto reader = ProgressReader::open(progress.memory().descriptor().duplicate().ValueOrDie()).ValueOrDie();
      GroupOptions options;
      options.rank = rank;
      options.world_size = 2;
      options.timeout = std::chrono::minutes(1);
      options.progress = &progress;
      const auto group = Group::create(options, client);
      body({rank, group->process_group()->getBackend(torch::kCPU), [group] { group->abort(); }, &reader, &clock});
      return reader.collectives();
    }));
  }
  std::vector<std::vector<CollectiveRecord>> ledgers;
  for (auto& rank : ranks) ledgers.push_back(rank.get());
  return ledgers;
}

std::vector<Collective> kinds_of(const std::vector<CollectiveRecord>& records) {
  std::vector<Collective> kinds;
  for (const CollectiveRecord& record : records) kinds.push_back(record.call.collective);
  return kinds;
}

TEST(SharedWork, AWorkHasItsNumberFromTheCallOnHoweverItIsWaitedFor) {
  const auto ledgers = on_two_ranks([](const Rank& rank) {
    Tensors sum{torch::ones({4})}, sent{torch::ones({4})};
    torch::Tensor whole = torch::zeros({8}), part = torch::ones({4});
    const std::vector works{rank.backend->allreduce(sum), rank.backend->broadcast(sent),
                            rank.backend->_allgather_base(whole, part)};
    const auto early = rank.backend->barrier();
    EXPECT_EQ(rank.reading(), (GroupReading{1, 0, 0, Collective::none})) << "this rank waits in none";
    EXPECT_EQ(rank.reader->collectives().size(), 4u);
    const std::vector<size_t> order = rank.number == 0 ? std::vector<size_t>{0, 1, 2} : std::vector<size_t>{2, 0, 1};
    for (const size_t which : order) works[which]->wait();
    EXPECT_EQ(rank.reading(), (GroupReading{1, 3, 3, Collective::all_gather}));
    EXPECT_TRUE(sum[0].equal(torch::full({4}, 2.0)));
  });
  for (const auto& records : ledgers) {
    EXPECT_THAT(kinds_of(records), ElementsAre(Collective::all_reduce, Collective::broadcast, Collective::all_gather,
                                               Collective::barrier));
    for (size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(records[i].number, static_cast<int64_t>(i) + 1);
      EXPECT_EQ(records[i].has_ended(), i < 3);
      EXPECT_EQ(records[i].waited_ns != 0, i < 3);
      EXPECT_FALSE(records[i].has_failed);
    }
  }
}

// One work of several parts is one number, which the errors of each part say.
TEST(SharedWork, AnErrorHasTheNumberOfTheLedger) {
  const auto ledgers = on_two_ranks([](const Rank& rank) {
    Tensors several{torch::ones({4}), torch::ones({5}), torch::ones({6})};
    rank.backend->allreduce_coalesced(several)->wait();
    Tensors tensor{torch::ones({rank.number == 0 ? 4 : 5})};
    try {
      rank.backend->allreduce(tensor)->wait();
      ADD_FAILURE() << "the ranks call different ones";
    } catch (const CollectiveError& failure) {
      EXPECT_THAT(failure.what(), HasSubstr("as number 2 of their group"));
    }
    EXPECT_EQ(rank.backend->getSequenceNumberForGroup(), 2u);
  });
  for (const auto& records : ledgers) {
    ASSERT_EQ(records.size(), 2u);
    EXPECT_FALSE(records[0].has_failed);
    EXPECT_EQ(records[0].call.bytes, 15 * 4);
    EXPECT_TRUE(records[1].has_failed);
    EXPECT_TRUE(records[1].has_ended());
  }
}

// Of a group that breaks, some parts are ended by who carries them out and some by who calls them.
TEST(SharedWork, AWorkOfManyPartsEndsOnceWhereItsGroupBreaks) {
  const auto ledgers = on_two_ranks([](const Rank& rank) {
    auto aborting = std::async(std::launch::async, rank.abort);
    for (int round = 0; round < 50; ++round) {
      Tensors several;
      for (int i = 0; i < 20; ++i) several.push_back(torch::ones({1 << 16}));
      try {
        rank.backend->allreduce_coalesced(several)->wait();
      } catch (const CollectiveError&) {
        break;
      }
    }
    aborting.get();
    for (int i = 0; i < 2000 && rank.reading().done < rank.reading().begun; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(rank.reading().done, rank.reading().begun);
  });
  for (const auto& records : ledgers) {
    for (const CollectiveRecord& record : records) EXPECT_TRUE(record.has_ended()) << record.number;
  }
}

// destroy_process_group() calls it.
TEST(SharedWork, WhatNobodyWaitsForComesToItsEndBeforeAShutdown) {
  std::promise<void> is_called;
  on_two_ranks([&](const Rank& rank) {
    Tensors sent{torch::full({4}, rank.number == 0 ? 7.0 : 0.0)};
    if (rank.number == 0) {
      rank.backend->broadcast(sent);
      is_called.set_value();
      rank.backend->shutdown();
    } else {
      is_called.get_future().get();
      rank.backend->broadcast(sent)->wait();
    }
    EXPECT_TRUE(sent[0].equal(torch::full({4}, 7.0)));
  });
}

// Groups let go of each other so.
TEST(CallApart, WhatACallbackHoldsMayCallTooWhenItEnds) {
  std::promise<void> is_called;
  std::shared_ptr<void> held(nullptr, [&](void*) { call_apart([&] { is_called.set_value(); }); });
  call_apart([held = std::move(held)] {});
  is_called.get_future().get();
}

}  // namespace
}  // namespace paceline::comm
