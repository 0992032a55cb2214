#include "paceline/policy/hang_detection.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

namespace paceline::policy {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A rank that has made ten steps, a second each at most, and last showed progress `idle_s` ago.
RankProgress rank_at(int64_t rank, double idle_s, int64_t step = 10) {
  return {.rank = rank,
          .progress = {.step = step,
                       .phase = Phase::training,
                       .idle_s = idle_s,
                       .marks = step,
                       .longest_pause_s = 1.0,
                       .groups = {{.group = 1, .begun = 5, .done = 5}}}};
}

RankProgress waiting_in(int64_t rank, double idle_s, int64_t sequence, const std::string& collective = "all_reduce") {
  RankProgress waiting = rank_at(rank, idle_s);
  waiting.progress.groups = {{.group = 1, .begun = sequence, .done = sequence - 1, .collective = collective}};
  return waiting;
}

RankProgress computing(RankProgress rank) {
  rank.computing = true;
  return rank;
}

RankProgress finished(RankProgress rank) {
  rank.finished = true;
  return rank;
}

TEST(Hang, NobodyIsHungWhoMakesProgress) {
  EXPECT_FALSE(detect_hang({}, {}).hangs());
  EXPECT_FALSE(detect_hang({rank_at(0, 2), rank_at(1, 29)}, {}).hangs());
}

TEST(Hang, ARankThatTheOthersWaitForIsNamedWithTheCollective) {
  const HangVerdict verdict = detect_hang({waiting_in(0, 41, 6), rank_at(1, 42), waiting_in(2, 41, 6)}, {});
  EXPECT_THAT(verdict.suspects, ElementsAre(1));
  EXPECT_TRUE(verdict.certain);
  EXPECT_THAT(verdict.text,
              AllOf(HasSubstr("rank 1 makes no progress: rank 1 is in step 10 (training) for 42 s, asleep"),
                    HasSubstr("ranks 0, 2 wait in all_reduce 6")));
}

TEST(Hang, WhileTheMissingRankMakesProgressNobodyIsHung) {
  EXPECT_FALSE(detect_hang({waiting_in(0, 600, 6), rank_at(1, 1)}, {}).hangs());
}

TEST(Hang, ThePatienceAdaptsToTheLongestPauseOfAnyRank) {
  std::vector<RankProgress> ranks = {waiting_in(0, 41, 6), rank_at(1, 41)};
  ranks[0].progress.longest_pause_s = 20;  // an evaluation, say
  EXPECT_FALSE(detect_hang(ranks, {}).hangs());
  ranks[1].progress.idle_s = 61;
  EXPECT_TRUE(detect_hang(ranks, {}).hangs());
  EXPECT_FALSE(detect_hang(ranks, {.hang_factor = 4}).hangs());
  EXPECT_FALSE(detect_hang(ranks, {.hang_floor_s = 62}).hangs());
}

TEST(Hang, ALoopWithoutStepsIsNotHungForBeingSlow) {
  EXPECT_FALSE(detect_hang({rank_at(0, 1e6, 0)}, {}).hangs());
  EXPECT_FALSE(detect_hang({rank_at(0, 1e6, 0), rank_at(1, 1e6, 0)}, {}).hangs());
  // But for keeping the others waiting, when it takes very long.
  EXPECT_FALSE(detect_hang({rank_at(0, 599, 0), waiting_in(1, 599, 6)}, {}).hangs());
  EXPECT_TRUE(detect_hang({rank_at(0, 600, 0), waiting_in(1, 599, 6)}, {}).hangs());
}

TEST(Hang, ASingleRankHangsByItsOwnSteps) {
  EXPECT_FALSE(detect_hang({rank_at(0, 29)}, {}).hangs());
  EXPECT_THAT(detect_hang({rank_at(0, 31)}, {}).suspects, ElementsAre(0));
}

// An evaluation by another program, a download, a slow file server.
TEST(Hang, ARankThatNobodyWaitsForIsReportedAtOnceButEndedLate) {
  EXPECT_FALSE(detect_hang({rank_at(0, 50)}, {}).certain);
  EXPECT_FALSE(detect_hang({rank_at(0, 50), rank_at(1, 50)}, {}).certain);
  EXPECT_FALSE(detect_hang({waiting_in(0, 20, 5), rank_at(1, 599)}, {}).certain) << "in what it has come to";
  EXPECT_TRUE(detect_hang({rank_at(0, 600), rank_at(1, 5)}, {}).certain);
  EXPECT_TRUE(detect_hang({rank_at(0, 50)}, {.hang_start_s = 50}).certain);
}

TEST(Hang, ARankThatWritesACheckpointIsReportedButNotEnded) {
  RankProgress writing = rank_at(1, 3000);
  writing.progress.phase = Phase::checkpoint;
  const HangVerdict verdict = detect_hang({waiting_in(0, 2999, 6), writing}, {});
  EXPECT_THAT(verdict.text, HasSubstr("rank 1 is in step 10 (checkpoint) for 3000 s, asleep"));
  EXPECT_FALSE(verdict.certain) << "the storage may be slow, and the others are in the next step";
  EXPECT_FALSE(detect_hang({writing}, {}).certain);
}

TEST(Hang, ARankThatComputesIsReportedAtOnceButEndedLate) {
  const HangVerdict early = detect_hang({waiting_in(0, 40, 6), computing(rank_at(1, 41))}, {});
  EXPECT_THAT(early.suspects, ElementsAre(1));
  EXPECT_FALSE(early.certain);
  EXPECT_THAT(early.text, HasSubstr("computing"));
  EXPECT_TRUE(detect_hang({waiting_in(0, 600, 6), computing(rank_at(1, 600))}, {}).certain);
}

TEST(Hang, ARankThatSkippedACollectiveIsInTheMinority) {
  const HangVerdict verdict =
      detect_hang({waiting_in(0, 40, 6), waiting_in(1, 40, 6, "broadcast"), waiting_in(2, 40, 6)}, {});
  EXPECT_THAT(verdict.suspects, ElementsAre(1));
  EXPECT_TRUE(verdict.certain);
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("ranks 0, 2 wait in all_reduce 6; rank 1 waits in broadcast 6"),
                                  HasSubstr("in the same order")));
}

TEST(Hang, ARankThatHasReturnedKeepsTheOthersWaiting) {
  const HangVerdict verdict = detect_hang({waiting_in(0, 40, 6), finished(rank_at(1, 41))}, {});
  EXPECT_THAT(verdict.suspects, ElementsAre(1));
  EXPECT_THAT(verdict.text,
              HasSubstr("rank 0 waits in all_reduce 6, but the train loop of rank 1 has returned without"));
  EXPECT_FALSE(detect_hang({finished(rank_at(0, 1e6)), finished(rank_at(1, 1e6))}, {}).hangs());
}

// Its loop has returned for good after its n-th collective.
RankProgress returned(int64_t rank, double idle_s, int64_t collectives) {
  RankProgress left = finished(rank_at(rank, idle_s));
  left.progress.phase = Phase::ended;
  left.progress.groups = {{.group = 1, .begun = collectives, .done = collectives, .collective = "all_reduce"}};
  return left;
}

TEST(Hang, ARankThatCanNeverComeIsKnownInSeconds) {
  const std::vector<RankProgress> ranks = {waiting_in(0, 3, 6), rank_at(1, 0), returned(2, 2.5, 5),
                                           waiting_in(3, 3, 6)};
  const HangVerdict verdict = detect_hang(ranks, {});
  EXPECT_TRUE(verdict.deadlock && verdict.certain);
  EXPECT_THAT(verdict.suspects, ElementsAre(2));
  EXPECT_EQ(verdict.witness, 0) << "who waits, not who has left";
  EXPECT_EQ(
      verdict.text,
      "ranks 0, 3 wait in all_reduce 6, which rank 2 can never join: its train loop has returned; every rank must "
      "call the same collectives");
  EXPECT_TRUE(detect_hang({waiting_in(0, 3, 1), returned(1, 3, 0)}, {}).deadlock) << "before any step";
}

TEST(Hang, ARankThatReturnedWithoutAnythingInAGroupKeepsTheOthersWaitingThere) {
  RankProgress waiting = waiting_in(0, 3, 6);
  waiting.progress.groups.front().group = 2;
  RankProgress left = returned(1, 3, 5);
  EXPECT_TRUE(detect_hang({waiting, left}, {}).deadlock) << "it shows all groups that it has made";
  left.progress.groups.push_back({.group = 2});
  EXPECT_TRUE(detect_hang({waiting, left}, {}).deadlock);
  left.progress.groups.clear();
  for (int64_t group = 3; std::ssize(left.progress.groups) < static_cast<int64_t>(ProgressWord::kGroups); ++group) {
    left.progress.groups.push_back({.group = group});
  }
  EXPECT_FALSE(detect_hang({waiting, left}, {}).hangs()) << "it had many, so that nobody knows";
}

// The first barrier(), or a model that one rank only prepares.
TEST(Hang, ARankThatConnectsToOthersWhoNeverComeIsFound) {
  RankProgress connecting = waiting_in(0, 3, 1);
  connecting.progress.groups = {{1, 5, 5, "barrier"}, {2, 1, 0, "barrier"}};
  const HangVerdict left = detect_hang({connecting, returned(1, 3, 5)}, {});
  EXPECT_TRUE(left.deadlock);
  EXPECT_THAT(left.text, HasSubstr("rank 0 waits in barrier 1 of group 2, which rank 1 can never join"));
  RankProgress elsewhere = rank_at(1, 599, 0);
  connecting.progress.idle_s = 599;
  EXPECT_FALSE(detect_hang({connecting, elsewhere}, {}).hangs()) << "it has no steps yet, and may come";
  elsewhere.progress.idle_s = 600;
  EXPECT_THAT(detect_hang({connecting, elsewhere}, {}).suspects, ElementsAre(1));
  elsewhere.progress.groups.push_back({2, 1, 0, "barrier"});
  EXPECT_THAT(detect_hang({connecting, elsewhere}, {}).suspects, IsEmpty()) << "both wait for the network";
}

// As HangWatch makes it when it has looked all the time.
std::vector<RankProgress> seen(std::vector<RankProgress> ranks) {
  for (RankProgress& rank : ranks) rank.seen_s = rank.progress.idle_s;
  return ranks;
}

// Shapes that differ: one rank is given a wrong result, the other waits for ever.
TEST(Hang, ARankThatWaitsWhenAllOthersHaveEndedTheSameCollectiveWaitsForNobody) {
  const HangVerdict verdict = detect_hang(seen({returned(0, 15, 6), waiting_in(1, 16, 6), returned(2, 20, 7)}), {});
  EXPECT_TRUE(verdict.deadlock && verdict.certain);
  EXPECT_THAT(verdict.suspects, ElementsAre(0, 2));
  EXPECT_EQ(verdict.witness, 1);
  EXPECT_EQ(verdict.text,
            "rank 1 waits in all_reduce 6 for nobody: the train loops of ranks 0, 2 have returned, with no collective "
            "under way; do all ranks call the same collectives, with the same shapes and types? "
            "DebugConfig.check_collectives compares them");
  EXPECT_THAT(detect_hang(seen({returned(0, 15, 6), waiting_in(1, 15, 6)}), {}).text,
              HasSubstr("the train loop of rank 0 has returned, with"));
  EXPECT_TRUE(detect_hang(seen({returned(0, 3, 6), waiting_in(1, 4, 6)}), {.hang_floor_s = 3}).deadlock);
}

TEST(Hang, ARankWaitsForNobodyOnlyWhenThatIsCertain) {
  const auto deadlocks = [](std::vector<RankProgress> ranks) {
    return detect_hang(seen(std::move(ranks)), {}).deadlock;
  };
  EXPECT_FALSE(deadlocks({returned(0, 14, 6), waiting_in(1, 60, 6)})) << "the last parts may be on their way";
  EXPECT_FALSE(deadlocks({returned(0, 60, 6), waiting_in(1, 14, 6)}));
  EXPECT_FALSE(detect_hang({returned(0, 60, 6), waiting_in(1, 60, 6)}, {}).deadlock) << "nobody looked: all slept";
  EXPECT_FALSE(deadlocks({returned(0, 60, 6), waiting_in(1, 60, 6), waiting_in(2, 60, 6)})) << "for each other";
  EXPECT_FALSE(deadlocks({returned(0, 60, 6), waiting_in(1, 60, 6), rank_at(2, 60)}));
  EXPECT_FALSE(deadlocks({returned(0, 60, 6), rank_at(1, 60)})) << "who computes waits for nobody";
  EXPECT_FALSE(deadlocks({returned(0, 60, 6), computing(waiting_in(1, 60, 6))})) << "it may be adding large tensors up";
  EXPECT_FALSE(deadlocks({waiting_in(0, 60, 6)})) << "a group of one";
  RankProgress unawaited = returned(0, 60, 6);
  unawaited.progress.groups.front().done = 5;
  EXPECT_FALSE(deadlocks({unawaited, waiting_in(1, 60, 6)})) << "its worker still takes part";
  RankProgress returning = returned(0, 60, 6);
  returning.progress.phase = Phase::checkpoint;
  EXPECT_FALSE(deadlocks({returning, waiting_in(1, 60, 6)}));
}

TEST(Hang, RanksThatWaitTogetherForOneThatHasDoneItsPartAreNotToldThatItLeftWithoutIt) {
  const HangVerdict verdict = detect_hang({returned(0, 40, 6), waiting_in(1, 40, 6), waiting_in(2, 40, 6)}, {});
  EXPECT_THAT(verdict.text,
              AllOf(HasSubstr("ranks 1-2 wait in all_reduce 6, and none gets on: the train loop of rank 0 "
                              "has returned; do all ranks call"),
                    HasSubstr("DebugConfig.check_collectives")));
  EXPECT_FALSE(verdict.deadlock);
}

TEST(Hang, ARankThatReturnedInTheSameOrALaterCollectiveKeepsNobodyWaiting) {
  EXPECT_FALSE(detect_hang({waiting_in(0, 20, 6), rank_at(1, 0), returned(2, 20, 6)}, {}).hangs());
  RankProgress between = returned(2, 20, 5);
  between.progress.phase = Phase::checkpoint;  // what was read before its loop returned
  EXPECT_FALSE(detect_hang({waiting_in(0, 20, 6), rank_at(1, 0), between}, {}).hangs());
  EXPECT_FALSE(detect_hang({waiting_in(0, 1, 6), returned(1, 1, 5)}, {}).hangs()) << "what is under way may arrive";
}

// Ranks call collectives one after the other, at their own pace; some leave earlier than others.
class Choir {
 public:
  Choir(std::mt19937& random, size_t size) : random_(random) {
    const int64_t calls = static_cast<int64_t>(random() % 6);
    for (size_t rank = 0; rank < size; ++rank) {
      const bool leaves_early = random() % 8 == 0;
      singers_.push_back({.calls = leaves_early ? static_cast<int64_t>(random() % (calls + 1)) : calls});
    }
  }

  // Half a second: each rank computes, begins its next collective, or leaves; a collective ends that all have begun.
  void go_on() {
    int64_t begun_by_all = INT64_MAX;
    for (Singer& singer : singers_) {
      singer.idle_s += 0.5;
      if (singer.begun > singer.done || singer.left || random_() % 3 == 0) continue;
      singer.idle_s = 0;
      singer.left = singer.begun == singer.calls;
      singer.begun += singer.left ? 0 : 1;
    }
    for (const Singer& singer : singers_) begun_by_all = std::min(begun_by_all, singer.begun);
    for (Singer& singer : singers_) {
      if (singer.begun == singer.done || singer.begun > begun_by_all) continue;
      singer.done = singer.begun;
      singer.idle_s = 0;
    }
  }

  bool is_deadlocked() const {
    return std::ranges::any_of(singers_, [this](const Singer& waiting) {
      return waiting.begun > waiting.done && std::ranges::any_of(singers_, [&](const Singer& other) {
               return other.left && other.begun < waiting.begun;
             });
    });
  }
  bool is_over() const { return std::ranges::all_of(singers_, &Singer::left); }

  std::vector<RankProgress> standing() const {
    std::vector<RankProgress> ranks;
    for (size_t rank = 0; rank < singers_.size(); ++rank) {
      const Singer& singer = singers_[rank];
      ranks.push_back(
          {.rank = static_cast<int64_t>(rank),
           .progress = {.phase = singer.left ? Phase::ended : Phase::training,
                        .idle_s = singer.idle_s,
                        .groups = {{.group = 1, .begun = singer.begun, .done = singer.done, .collective = "barrier"}}},
           .finished = singer.left});
    }
    return ranks;
  }

 private:
  struct Singer {
    int64_t calls = 0;
    int64_t begun = 0;
    int64_t done = 0;
    bool left = false;
    double idle_s = 0;
  };
  std::mt19937& random_;
  std::vector<Singer> singers_;
};

TEST(Hang, EveryDeadlockIsFoundInSecondsAndNothingElseIsOne) {
  int deadlocks = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    Choir choir(random, 2 + random() % 4);
    double deadlocked_s = 0;
    for (int turn = 0; turn < 200 && !choir.is_over(); ++turn) {
      choir.go_on();
      deadlocked_s = choir.is_deadlocked() ? deadlocked_s + 0.5 : 0;
      const HangVerdict verdict = detect_hang(choir.standing(), {});
      if (verdict.deadlock) {
        EXPECT_TRUE(choir.is_deadlocked()) << "seed " << seed << ": " << verdict.text;
        ++deadlocks;
        break;
      }
      ASSERT_LT(deadlocked_s, kDeadlockSeconds + 0.6) << "seed " << seed;
    }
    EXPECT_TRUE(choir.is_over() || choir.is_deadlocked()) << "seed " << seed;
  }
  EXPECT_GT(deadlocks, 50);
}

// As a Choir, but what a rank has begun ends for each at its own moment, within ten seconds of the last one's
// beginning; one collective may fit together for some of the ranks only, and never ends for the others. Loops may
// return while their last ones are under way.
class LooseChoir {
 public:
  LooseChoir(std::mt19937& random, size_t size) : random_(random), singers_(size) {
    calls_ = 1 + static_cast<int64_t>(random() % 4);
    if (random() % 2 == 0) broken_ = 1 + static_cast<int64_t>(random() % calls_);
    for (Singer& singer : singers_) {
      singer.is_stuck_there = size > 1 && random() % 2 == 0;
      singer.may_run_ahead = random() % 4 == 0;
    }
  }

  // Half a second.
  void go_on() {
    int64_t begun_by_all = INT64_MAX;
    for (Singer& singer : singers_) {
      singer.idle_s += 0.5;
      if (singer.left || (singer.begun > singer.done && !singer.may_run_ahead) || random_() % 3 == 0) continue;
      singer.idle_s = 0;
      singer.left = singer.begun == calls_;
      singer.begun += singer.left ? 0 : 1;
    }
    for (const Singer& singer : singers_) begun_by_all = std::min(begun_by_all, singer.begun);
    for (Singer& singer : singers_) {
      const bool can_end = singer.done < std::min(singer.begun, begun_by_all) && !is_stuck(singer);
      singer.late_s = can_end ? singer.late_s + 0.5 : 0;
      if (!can_end || (singer.late_s < 10 && random_() % 8 != 0)) continue;
      ++singer.done;
      singer.late_s = 0;
      singer.idle_s = 0;
    }
  }

  // Somebody is stuck, and all others have left with nothing under way.
  bool one_is_alone() const {
    const auto is_gone = [](const Singer& singer) { return singer.left && singer.begun == singer.done; };
    const auto gone = std::ranges::count_if(singers_, is_gone);
    return gone + 1 == std::ssize(singers_) && std::ranges::any_of(singers_, [&](const Singer& singer) {
             const bool goes_on = singer.may_run_ahead && singer.begun < calls_;
             return !singer.left && !goes_on && is_stuck(singer) && singer.begun > singer.done;
           });
  }

  std::vector<RankProgress> standing() const {
    std::vector<RankProgress> ranks;
    for (const Singer& singer : singers_) {
      ranks.push_back(
          {.rank = std::ssize(ranks),
           .progress = {.phase = singer.left ? Phase::ended : Phase::training,
                        .idle_s = singer.idle_s,
                        .groups = {{.group = 1, .begun = singer.begun, .done = singer.done, .collective = "barrier"}}},
           .finished = singer.left});
    }
    return ranks;
  }

 private:
  struct Singer {
    int64_t begun = 0;
    int64_t done = 0;
    bool left = false;
    bool is_stuck_there = false;
    bool may_run_ahead = false;
    double idle_s = 0;
    double late_s = 0;  // since what it waits for could have ended
  };

  bool is_stuck(const Singer& singer) const { return singer.is_stuck_there && singer.done + 1 == broken_; }

  std::mt19937& random_;
  std::vector<Singer> singers_;
  int64_t calls_ = 0;
  int64_t broken_ = 0;
};

TEST(Hang, WhoWaitsAloneIsFoundInSecondsAndNobodyWhoseCollectiveIsStillToEnd) {
  int deadlocks = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    LooseChoir choir(random, 1 + random() % 4);
    HangWatch watch{{}};
    double alone_s = 0;
    for (int turn = 0; turn < 400; ++turn) {
      choir.go_on();
      alone_s = choir.one_is_alone() ? alone_s + 0.5 : 0;
      const auto verdict = watch.look(choir.standing());
      if (verdict && verdict->deadlock) {
        EXPECT_TRUE(choir.one_is_alone()) << "seed " << seed << ": " << verdict->text;
        ++deadlocks;
        break;
      }
      ASSERT_LT(alone_s, kAloneSeconds + 1.1) << "seed " << seed;
    }
  }
  EXPECT_GT(deadlocks, 20);
}

TEST(Hang, RanksThatAllWaitInOneCollectiveHaveNoCulprit) {
  const HangVerdict verdict = detect_hang({waiting_in(0, 40, 6), waiting_in(1, 40, 6)}, {});
  EXPECT_THAT(verdict.suspects, IsEmpty());
  EXPECT_THAT(verdict.text, HasSubstr("ranks 0-1 wait in all_reduce 6, and none gets on"));
  EXPECT_FALSE(detect_hang({waiting_in(0, 40, 6), waiting_in(1, 4, 6)}, {}).hangs());
}

// Of two groups; what has begun and is not done is an all_reduce.
RankProgress in_groups(int64_t rank, double idle_s, rpc::AllGroupCounts groups) {
  RankProgress made = rank_at(rank, idle_s);
  for (rpc::GroupCounts& group : groups) group.collective = "all_reduce";
  made.progress.groups = std::move(groups);
  return made;
}

TEST(Hang, StepsThatAreNoMarksTellHowLongPausesAre) {
  RankProgress missing = rank_at(1, 42);
  RankProgress waiting = waiting_in(0, 41, 6);
  missing.progress.marks = waiting.progress.marks = 0;
  EXPECT_THAT(detect_hang({waiting, missing}, {}).suspects, ElementsAre(1));
  EXPECT_FALSE(detect_hang({missing}, {}).hangs()) << "nobody waits for it";
}

TEST(Hang, CollectivesOfSeveralGroupsAreComparedGroupByGroup) {
  // Each has begun eight, and rank 1 none that rank 0 waits in.
  const HangVerdict missing =
      detect_hang({in_groups(0, 41, {{2, 5, 4}, {3, 3, 3}}), in_groups(1, 42, {{2, 4, 4}, {3, 4, 4}})}, {});
  EXPECT_THAT(missing.suspects, ElementsAre(1));
  EXPECT_THAT(missing.text,
              AllOf(HasSubstr("rank 1 makes no progress"), HasSubstr("rank 0 waits in all_reduce 5 of group 2")));
  // Fewer altogether, and yet nobody waits for it: without steps it is not missing.
  RankProgress behind = in_groups(1, 599, {{2, 5, 5}, {3, 7, 7}});
  behind.progress.marks = 0;
  EXPECT_FALSE(detect_hang({in_groups(0, 599, {{2, 5, 4}, {3, 9, 9}}), behind}, {.hang_start_s = 60}).hangs());
  const HangVerdict none =
      detect_hang({in_groups(0, 41, {{2, 5, 4}, {3, 9, 9}}), in_groups(1, 41, {{2, 5, 4}, {3, 7, 7}})}, {});
  EXPECT_THAT(none.text, HasSubstr("ranks 0-1 wait in all_reduce 5 of group 2, and none gets on"));
}

TEST(Hang, RanksThatWaitCrosswiseInTwoGroupsWaitForEachOther) {
  const HangVerdict verdict =
      detect_hang({in_groups(0, 41, {{2, 5, 4}, {3, 3, 3}}), in_groups(1, 41, {{2, 4, 4}, {3, 4, 3}})}, {});
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("wait for each other in different collectives"),
                                  HasSubstr("rank 0 waits in all_reduce 5 of group 2"),
                                  HasSubstr("rank 1 waits in all_reduce 4 of group 3")));
}

TEST(Hang, WhatEverybodyHasComeToHoldsThemUpNotWhatOneHasBegunEarly) {
  const HangVerdict verdict =
      detect_hang({in_groups(0, 41, {{2, 5, 4}, {3, 4, 3}}), in_groups(1, 41, {{2, 4, 4}, {3, 4, 3}})}, {});
  EXPECT_THAT(verdict.suspects, IsEmpty());
  EXPECT_THAT(verdict.text, HasSubstr("ranks 0-1 wait in all_reduce 4 of group 3, and none gets on"));
}

RankProgress with_step(int64_t rank, double step_s, int64_t steps = kStepsToCompare) {
  return {.rank = rank, .progress = {.steps_timed = steps, .step_s = step_s}};
}

TEST(Stragglers, AreThoseFarAboveTheOthersMedian) {
  EXPECT_THAT(find_stragglers({with_step(0, 1.0), with_step(1, 1.1), with_step(2, 0.9)}, 1.5), IsEmpty());
  EXPECT_THAT(find_stragglers({with_step(0, 1.0), with_step(1, 2.5), with_step(2, 1.0), with_step(3, 1.6)}, 1.5),
              ElementsAre(Straggler{.rank = 1, .step_s = 2.5, .median_s = 1.0},
                          Straggler{.rank = 3, .step_s = 1.6, .median_s = 1.0}));
  EXPECT_THAT(find_stragglers({with_step(0, 1.0), with_step(1, 1.5)}, 1.5), ElementsAre(Straggler{1, 1.5, 1.0}));
}

TEST(Stragglers, TheMedianIsThatOfTheOthersWhoeverTheyAre) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<RankProgress> ranks;
    for (size_t rank = 0; rank < 2 + random() % 8; ++rank) {
      ranks.push_back(with_step(static_cast<int64_t>(rank), 1.0 + static_cast<double>(random() % 5)));
    }
    for (const Straggler& slow : find_stragglers(ranks, 1.0)) {
      std::vector<double> others;
      for (const RankProgress& other : ranks) {
        if (other.rank != slow.rank) others.push_back(other.progress.step_s);
      }
      std::ranges::sort(others);
      EXPECT_EQ(slow.median_s, others[others.size() / 2]);
    }
  }
}

TEST(Stragglers, AreNamedWithHowSlowTheyAre) {
  EXPECT_EQ(slow_text({}), "");
  EXPECT_EQ(slow_text({{3, 2.5, 1.0}}), "slow: rank 3 (2.5x)");
  EXPECT_EQ(slow_text({{3, 2.5, 1.0}, {0, 0.8, 0.5}}), "slow: ranks 3 (2.5x), 0 (1.6x)");
  EXPECT_EQ(slow_text({{3, 5, 1}, {0, 4, 1}, {7, 3, 1}, {2, 2, 1}, {1, 2, 1}}),
            "slow: ranks 3 (5.0x), 0 (4.0x), 7 (3.0x) and 2 more");
}

TEST(Stragglers, NeedStepsToCompareAndOthersToCompareWith) {
  EXPECT_THAT(find_stragglers({with_step(0, 1.0), with_step(1, 9.0, kStepsToCompare - 1)}, 1.5), IsEmpty());
  EXPECT_THAT(find_stragglers({with_step(0, 9.0)}, 1.5), IsEmpty());
  EXPECT_THAT(find_stragglers({with_step(0, 0.001), with_step(1, 0.004)}, 1.5), IsEmpty()) << "noise";
}

RankProgress idle_rank(double idle_s, double cpu_s = 0) {
  return {.rank = 0, .progress = {.step = 9, .phase = Phase::training, .idle_s = idle_s, .marks = 9, .cpu_s = cpu_s}};
}

TEST(HangWatch, ReportsAHangOnce) {
  HangWatch watch{{}};
  EXPECT_FALSE(watch.look({idle_rank(29)}));
  EXPECT_THAT(watch.look({idle_rank(31)})->text, HasSubstr("rank 0 makes no progress"));
  EXPECT_FALSE(watch.look({idle_rank(32)}));
  EXPECT_FALSE(watch.look({idle_rank(0)}));  // it goes on
  EXPECT_TRUE(watch.look({idle_rank(31)}));
}

TEST(HangWatch, TimeInWhichNothingRanIsNotWaited) {
  HangWatch watch{{.hang_floor_s = 1000}};
  const auto look_at = [&watch](double idle_s) {
    return watch.look({waiting_in(0, idle_s, 6), returned(1, idle_s, 6)});
  };
  EXPECT_FALSE(look_at(1));
  double idle_s = 100;  // the machine has slept
  EXPECT_FALSE(look_at(idle_s));
  int seconds = 0;
  while (!look_at(++idle_s) && seconds < 60) ++seconds;
  EXPECT_GE(seconds, kAloneSeconds - 5);
  EXPECT_LT(seconds, kAloneSeconds);
}

TEST(HangWatch, ARankThatMayWaitForAReaderOfItsOutputDoesNotHang) {
  HangWatch watch{{}};
  EXPECT_FALSE(watch.look({idle_rank(31)}, /*output_is_held_up=*/true));
  EXPECT_TRUE(watch.look({waiting_in(0, 31, 6), returned(1, 31, 5)}, /*output_is_held_up=*/true)->deadlock);
  EXPECT_TRUE(watch.look({idle_rank(31)}));
}

TEST(HangWatch, ARankThatUsesItsProcessorIsNotCertainToHang) {
  HangWatch watch{{}};
  EXPECT_FALSE(watch.look({idle_rank(1, 100)}));
  EXPECT_FALSE(watch.look({idle_rank(31, 129)})->certain);
  EXPECT_FALSE(watch.look({idle_rank(40, 138)}));
  EXPECT_TRUE(watch.look({idle_rank(600, 690)})->certain);  // DebugConfig.hang_start_s
}

TEST(HangWatch, ProcessorTimeBeforeTheLastProgressDoesNotCount) {
  HangWatch watch{{}};
  RankProgress waiting = waiting_in(1, 20, 6), idle = idle_rank(20, 100);
  idle.progress.groups = {{.group = 1, .begun = 5, .done = 5}};
  EXPECT_FALSE(watch.look({idle, waiting}));
  idle.progress.idle_s = 0, idle.progress.cpu_s = 120;
  EXPECT_FALSE(watch.look({idle, waiting}));
  idle.progress.idle_s = 31;
  EXPECT_TRUE(watch.look({idle, waiting})->certain);
}

TEST(HangWatch, NamesASlowRankOnceInAGroup) {
  const auto timed = [](int64_t rank, double step_s) {
    return RankProgress{.rank = rank, .progress = {.steps_timed = kStepsToCompare, .step_s = step_s}};
  };
  HangWatch watch{{}};
  EXPECT_THAT(watch.new_stragglers({timed(0, 1), timed(1, 2)}), ElementsAre(Straggler{1, 2, 1}));
  EXPECT_THAT(watch.new_stragglers({timed(0, 1), timed(1, 3)}), IsEmpty());
  watch.forget();
  EXPECT_THAT(watch.new_stragglers({timed(0, 1), timed(1, 3)}), ElementsAre(Straggler{1, 3, 1}));
}

}  // namespace
}  // namespace paceline::policy
