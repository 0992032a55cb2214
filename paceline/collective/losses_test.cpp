// Who is lost, late, stopped or has aborted is named to the others.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <future>
#include <random>

#include "paceline/collective/group.h"
#include "paceline/collective/ranks_fixture.h"
#include "paceline/core/peer_lost.h"
#include "paceline/testing/in_fork.h"

namespace paceline::collective {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Losses, AnAbortReleasesWhoWaitsOnEveryRank) {
  std::atomic<bool> has_aborted = false;
  on_threads(3, [&](SharedGroup& group) {
    if (group.rank() == 0) {
      group.abort();
      has_aborted = true;
      has_aborted.notify_all();
      EXPECT_THROW(run(group, request(Kind::barrier, nullptr, 0, {})), CollectiveError);
      return;
    }
    try {
      run(group, request(Kind::barrier, nullptr, 0, {}));
      FAIL();
    } catch (const PeerLost& lost) {
      EXPECT_THAT(lost.ranks(), ElementsAre(0));
    }
    has_aborted.wait(false);  // the rank's memory stays until all have looked
  });
}

// A rank that gives up its group, once it has heard of the loss, is not taken for lost by others that hear of it later.
TEST(Losses, WhoIsLostIsNamedAlsoWhenOthersAbortForThat) {
  std::atomic<int> gone = 0;
  const auto wait_until_gone = [&](int ranks) {
    for (int now = gone; now < ranks; now = gone) gone.wait(now);
  };
  on_threads(3, [&](SharedGroup& group) {
    wait_until_gone(2 - group.rank());
    if (group.rank() < 2) {
      try {
        run(group, request(Kind::barrier, nullptr, 0, {}));
        ADD_FAILURE() << group.rank();
      } catch (const PeerLost& lost) {
        EXPECT_THAT(lost.ranks(), ElementsAre(2)) << lost.what();
      }
    }
    group.abort();
    ++gone;
    gone.notify_all();
    wait_until_gone(3);  // the ranks' memory stays until all have looked
  });
}

TEST(Losses, WhoComesTooLateIsNamed) {
  std::atomic<int> waiting = 2;
  on_threads(3, [&](SharedGroup& group) {
    if (group.rank() == 1) {
      for (int left = waiting; left > 0; left = waiting) waiting.wait(left);
      return;
    }
    Request barrier = request(Kind::barrier, nullptr, 0, {});
    barrier.timeout = std::chrono::milliseconds(50);
    try {
      run(group, std::move(barrier));
      ADD_FAILURE();
    } catch (const PeerLost& lost) {
      EXPECT_THAT(lost.ranks(), ElementsAre(1));
      EXPECT_THAT(lost.what(), HasSubstr("barrier number 3 failed on rank " + std::to_string(group.rank()) +
                                         " of 3 for want of rank 1: it has not come in time"));
    }
    --waiting;
    waiting.notify_all();
  });
}

TEST(Losses, WhoComesTooLateIsToldThatTheOthersWaitNoMore) {
  std::atomic<bool> has_given_up = false;
  on_threads(2, [&](SharedGroup& group) {
    if (group.rank() == 0) {
      Request barrier = request(Kind::barrier, nullptr, 0, {});
      barrier.timeout = std::chrono::milliseconds(50);
      EXPECT_THROW(run(group, std::move(barrier)), PeerLost);
      has_given_up = true;
      has_given_up.notify_all();
      return;
    }
    has_given_up.wait(false);
    try {
      run(group, request(Kind::barrier, nullptr, 0, {}));  // the other has come to this one
      run(group, request(Kind::barrier, nullptr, 0, {}));
      ADD_FAILURE();
    } catch (const PeerLost& lost) {
      EXPECT_THAT(lost.ranks(), ElementsAre(0));
      EXPECT_THAT(lost.what(), HasSubstr("for want of rank 0: it waits for this rank no more"));
    }
  });
}

TEST(Losses, WhoAbortsMaySayWhy) {
  on_threads(2, [&](SharedGroup& group) {
    if (group.rank() == 1) return group.abort("the network is gone");
    try {
      run(group, request(Kind::barrier, nullptr, 0, {}));
      FAIL();
    } catch (const AbortedFor& aborted) {
      EXPECT_EQ(aborted.reason(), "the network is gone");
      EXPECT_THAT(aborted.what(), HasSubstr("rank 1 has aborted: the network is gone"));
    }
  });
}

TEST(Losses, WhoLeavesIsMissed) {
  on_threads(2, [&](SharedGroup& group) {
    if (group.rank() == 1) return;
    try {
      run(group, request(Kind::barrier, nullptr, 0, {}));
      FAIL();
    } catch (const PeerLost& lost) {
      EXPECT_THAT(lost.what(), HasSubstr("for want of rank 1: it has left the group"));
    }
  });
}

// What it does meanwhile the others do not see: they wait for it, and miss it when it is lost.
TEST(Losses, WhoIsAtItsGateMissesOthersToo) {
  std::atomic<bool> is_named = false;
  on_threads(3, [&](SharedGroup& group) {
    if (group.rank() == 2) return group.abort();
    Request barrier = request(Kind::barrier, nullptr, 0, {});
    if (group.rank() == 0) barrier.gate = std::make_shared<std::atomic<bool>>(false);  // which nobody opens
    const auto operation = group.start(std::move(barrier));
    group.push(operation);
    try {
      group.wait(operation);
      ADD_FAILURE() << group.rank();
    } catch (const PeerLost& lost) {
      EXPECT_THAT(lost.ranks(), ElementsAre(2)) << lost.what();
    }
    if (group.rank() == 1) return is_named.wait(false);
    is_named = true;
    is_named.notify_all();
  });
}

// It is not this rank's, but that of who called the whole, that it waits no more.
TEST(Losses, WhoIsLateForAPartOfACallIsNotGivenUp) {
  std::promise<void> is_late;
  on_threads(2, [&](SharedGroup& group) {
    if (group.rank() == 0) {
      Request barrier = request(Kind::barrier, nullptr, 0, {});
      barrier.whole = {.kind = Kind::all_to_all};
      barrier.place = 3;
      barrier.timeout = std::chrono::milliseconds(50);
      const auto operation = group.start(std::move(barrier));
      EXPECT_THAT(group.awaited(3), ElementsAre(1));
      EXPECT_THAT(group.awaited(2), ElementsAre());
      EXPECT_THROW(group.wait(operation), PeerLate);
      EXPECT_NO_THROW(group.check_gone("x", /*counts_left=*/false));
      is_late.set_value();
      return;
    }
    is_late.get_future().wait();
    EXPECT_NO_THROW(group.check_gone("x", /*counts_left=*/false));
  });
}

TEST(Losses, WhoHasLeftWellMayHaveDoneItsPart) {
  on_threads(2, [](SharedGroup& group) {
    if (group.rank() == 0) return;
    while (true) {  // until rank 0 has left
      try {
        group.check_gone("x", /*counts_left=*/true);
        std::this_thread::yield();
      } catch (const PeerLost& lost) {
        EXPECT_THAT(lost.ranks(), ElementsAre(0));
        break;
      }
    }
    EXPECT_NO_THROW(group.check_gone("x", /*counts_left=*/false));
  });
}

// How a rank of the next test ends.
enum class End { killed, exits, stopped };

class LostRanks : public ::testing::TestWithParam<std::tuple<End, bool>> {};

// Long before the deadline, which is for those who run.
TEST(Losses, WhoIsStoppedIsNamedWhenPatienceEnds) {
  if (!paceline::testing::kForksMayStartThreads) GTEST_SKIP() << "forks cannot start threads";
  const FileBulletin files;
  const pid_t other = ::fork();
  const auto group = SharedGroup::create(files.bulletin(), other == 0 ? 1 : 0, 2, kTestTimeout);
  group->set_patience(Patience(std::chrono::milliseconds(20)));
  if (other == 0) {
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  try {
    group->wait(group->start({.kind = Kind::barrier}));  // whose deadline is half an hour
    ADD_FAILURE() << "the barrier has ended";
  } catch (const PeerLost& lost) {
    EXPECT_THAT(lost.ranks(), ElementsAre(1));
    EXPECT_THAT(lost.what(), HasSubstr("its process is stopped"));
  }
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

TEST(Losses, WhoIsStoppedIsNamedToThoseWhoSendToItOrReceiveFromIt) {
  if (!paceline::testing::kForksMayStartThreads) GTEST_SKIP() << "forks cannot start threads";
  struct Case {
    bool sends;
    int rank;
  };
  for (const auto [sends, rank] : {Case{true, 1}, Case{false, 1}, Case{false, -1}}) {
    const FileBulletin files;
    const pid_t other = ::fork();
    const auto group = SharedGroup::create(files.bulletin(), other == 0 ? 1 : 0, 2, kTestTimeout);
    group->set_patience(Patience(std::chrono::milliseconds(20)));
    if (other == 0) {
      ::raise(SIGSTOP);
      ::_exit(0);
    }
    std::vector<std::byte> bytes(2 * kMailBytes);  // more than can be sent to who takes nothing
    std::promise<void> end;
    auto letter = std::make_shared<Letter>();
    *letter = {.rank = rank, .memory = bytes.data(), .bytes = bytes.size(), .deadline = Deadline::max()};
    letter->on_end = [&](const std::exception_ptr& failure) { end.set_exception(failure); };
    sends ? group->mail().send(letter) : group->mail().receive(letter);
    try {
      end.get_future().get();
      ADD_FAILURE() << "it has come";
    } catch (const PeerLost& lost) {
      EXPECT_THAT(lost.ranks(), ElementsAre(1));
      EXPECT_THAT(lost.what(), HasSubstr("its process is stopped"));
    }
    ::kill(other, SIGKILL);
    ::waitpid(other, nullptr, 0);
  }
}

int sockets_open() {
  int sockets = 0;
  for (int descriptor = 0; descriptor < 4096; ++descriptor) {
    struct stat status{};
    sockets += ::fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode) ? 1 : 0;
  }
  return sockets;
}

// A worker that loads data, for instance, may outlive its rank: it must not keep the rank's end from the others.
TEST(Losses, AForkOfARankDoesNotHideItsEnd) {
  const int before = sockets_open();
  on_threads(2, [&](SharedGroup& group) {
    run(group, request(Kind::barrier, nullptr, 0, {}));
    if (group.rank() == 0) {
      EXPECT_GT(sockets_open(), before);
      EXPECT_TRUE(paceline::testing::holds_in_fork([&] { return sockets_open() == before; }));
    }
    run(group, request(Kind::barrier, nullptr, 0, {}));
  });
}

TEST(Losses, AGroupThatCannotBeWatchedIsRefused) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the undefined-behaviour sanitizer that goes with it needs descriptors to look at memory";
#endif
  auto arena = Arena::create(1 << 20).ValueOrDie();
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  std::string said;
  try {
    const Peers peers(0, arena, Meeting{.ranks = {0}, .members = {}, .nodes = {{0}}});
  } catch (const CollectiveError& error) {
    said = error.what();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(said, HasSubstr("ulimit -n"));
}

// Ranks are processes that reduce on and on; one of them ends at a random moment.
TEST_P(LostRanks, AreNamedToTheOthers) {
  if (!paceline::testing::kForksMayStartThreads) GTEST_SKIP() << "forks cannot start threads";
  const auto [end, in_arena] = GetParam();
  constexpr int kRanks = 3;
  for (int round = 0; round < (end == End::stopped ? 3 : 10); ++round) {
    const int lost = round % kRanks;
    const FileBulletin files;
    std::vector<pid_t> processes;
    for (int rank = 0; rank < kRanks; ++rank) {
      processes.push_back(::fork());
      if (processes.back() != 0) continue;
      int result = 1;
      try {
        const auto group = SharedGroup::create(files.bulletin(), rank, kRanks, kTestTimeout);
        Buffer values(*group, in_arena ? Place::arena : Place::heap, 40'000);
        std::mt19937 random(static_cast<unsigned>(round));
        for (int i = 0, last = static_cast<int>(random() % 50);; ++i) {
          Request reduce = request(Kind::all_reduce, &values, i % 3 == 0 ? 10 : 40'000, {values.data()});
          if (end == End::stopped && i >= last) reduce.timeout = std::chrono::milliseconds(1000);
          const auto operation = group->start(std::move(reduce));
          if (rank == lost && i == last) {
            if (end == End::exits) ::_exit(0);
            ::raise(end == End::killed ? SIGKILL : SIGSTOP);
          }
          group->wait(operation);
        }
      } catch (const PeerLost& failure) {
        const bool is_named = failure.ranks() == std::vector<int64_t>{lost};
        if (!is_named) std::fprintf(stderr, "rank %d: %s\n", rank, failure.what());
        result = is_named ? 0 : 2;
      } catch (const std::exception& failure) {
        std::fprintf(stderr, "rank %d: %s\n", rank, failure.what());
      }
      ::_exit(result);
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      int status = 0;
      if (rank == lost) continue;
      ASSERT_EQ(::waitpid(processes[static_cast<size_t>(rank)], &status, 0), processes[static_cast<size_t>(rank)]);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "round " << round << " rank " << rank;
    }
    ::kill(processes[static_cast<size_t>(lost)], SIGKILL);
    ::waitpid(processes[static_cast<size_t>(lost)], nullptr, 0);
  }
}

std::string name_of_end(const ::testing::TestParamInfo<LostRanks::ParamType>& info) {
  constexpr const char* kEnds[] = {"Killed", "Exits", "Stopped"};
  return std::string(kEnds[static_cast<int>(std::get<0>(info.param))]) + (std::get<1>(info.param) ? "InTheArena" : "");
}

INSTANTIATE_TEST_SUITE_P(All, LostRanks,
                         ::testing::Combine(::testing::Values(End::killed, End::exits, End::stopped),
                                            ::testing::Bool()),
                         name_of_end);

}  // namespace
}  // namespace paceline::collective
