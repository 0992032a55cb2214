#include "paceline/core/progress.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace paceline {
namespace {

using std::chrono::seconds;

// A word, its reader and their clock.
class ProgressTest : public ::testing::Test {
 protected:
  ProgressReading read() const { return reader_.read(clock_.monotonic()); }

  ManualClock clock_{Time{seconds(100)}};
  Progress progress_ = Progress::create(clock_).ValueOrDie();
  const ProgressReader reader_ =
      ProgressReader::open(progress_.memory().descriptor().duplicate().ValueOrDie()).ValueOrDie();
};

// Up to `unknown`, which comes last.
TEST(Phases, EachHasANameThatLeadsBackToIt) {
  for (uint32_t number = 0; number < static_cast<uint32_t>(Phase::unknown); ++number) {
    const auto phase = static_cast<Phase>(number);
    EXPECT_NE(to_string(phase), "") << number;
    EXPECT_EQ(nlohmann::json(to_string(phase)).get<Phase>(), phase);
  }
  EXPECT_EQ(nlohmann::json("").get<Phase>(), Phase::unknown);
}

TEST_F(ProgressTest, TheReaderSeesWhatTheWriterNoted) {
  EXPECT_EQ(read().phase, Phase::starting);
  clock_.advance(seconds(5));
  progress_.set_phase(Phase::collective);
  progress_.set_step(17);
  clock_.advance(seconds(2));
  EXPECT_EQ(read().phase, Phase::collective);
  EXPECT_EQ(read().step, 17);
  EXPECT_EQ(read().in_phase, seconds(2));
  EXPECT_EQ(read().idle, seconds(2));
  EXPECT_FALSE(read().cut_off);
  progress_.note_cut_off();
  EXPECT_TRUE(read().cut_off);
}

TEST_F(ProgressTest, SettingTheWallClockChangesNothing) {
  progress_.set_phase(Phase::data);
  clock_.advance(seconds(3));
  clock_.set_wall(std::chrono::hours(-24));
  EXPECT_EQ(read().in_phase, seconds(3));
  clock_.set_wall(std::chrono::hours(48));
  EXPECT_EQ(read().idle, seconds(3));
}

TEST_F(ProgressTest, ThePausesBeforeTheFirstStepDoNotCount) {
  clock_.advance(seconds(60));
  progress_.set_step(1);
  EXPECT_EQ(read().longest_pause, seconds(0));
  clock_.advance(seconds(4));
  progress_.set_phase(Phase::data);
  clock_.advance(seconds(2));
  progress_.note_report();
  EXPECT_EQ(read().longest_pause, seconds(4));
  EXPECT_EQ(read().marks, 2);
}

TEST_F(ProgressTest, AStepsTimeIsWithoutWaitingInCollectives) {
  const auto group = progress_.add_group(), other = progress_.add_group();
  for (int64_t step = 1; step <= 5; ++step) {
    progress_.set_step(step);
    clock_.advance(seconds(2));
    const auto one = group->begin_collective({Collective::all_reduce});
    const auto two = other->begin_collective({Collective::all_reduce});  // both are under way
    clock_.advance(seconds(7));
    group->end_collective(one);
    other->end_collective(two);
  }
  EXPECT_EQ(read().step_time, seconds(2));
  EXPECT_EQ(read().steps_timed, 3);  // neither the first nor the one that runs
}

TEST_F(ProgressTest, NoTimeIsSpentWaitingForWhatADeviceCarriesOut) {
  const auto group = progress_.add_group();
  progress_.set_phase(Phase::backward);
  const auto first = group->launch_collective({Collective::all_reduce}),
             second = group->launch_collective({Collective::broadcast}),
             third = group->launch_collective({Collective::barrier});
  const GroupReading all{.group = 1, .begun = 3, .done = 0, .oldest = Collective::all_reduce};
  EXPECT_EQ(read().groups, std::vector{all});
  clock_.advance(seconds(5));
  EXPECT_EQ(read().idle, seconds(5));
  group->end_launched(first, seconds(2));
  group->end_launched(second, std::nullopt);
  EXPECT_EQ(read().idle, seconds(0));
  const GroupReading last{.group = 1, .begun = 3, .done = 2, .oldest = Collective::barrier};
  EXPECT_EQ(read().groups, std::vector{last});
  group->end_launched(third, std::nullopt, true);
  EXPECT_EQ(read().spent, (TimeSpent{.compute_s = 5}));
  const std::vector<CollectiveRecord> records = reader_.collectives();
  EXPECT_EQ(records[0].end_ns - records[0].start_ns(), Duration(seconds(2)).count());
  EXPECT_EQ(records[1].end_ns - records[1].start_ns(), Duration(seconds(5)).count());
  EXPECT_TRUE(records[2].has_failed);
}

TEST_F(ProgressTest, AStepThatGoesOnHasItsTimeWithoutWaiting) {
  const auto group = progress_.add_group();
  EXPECT_EQ(read().in_step, seconds(0));
  clock_.advance(seconds(1));
  progress_.set_step(1);
  clock_.advance(seconds(3));
  EXPECT_EQ(read().in_step, seconds(3));
  const auto one = group->begin_collective({Collective::all_reduce});
  clock_.advance(seconds(20));
  EXPECT_EQ(read().in_step, seconds(3)) << "others hold it up";
  group->end_collective(one);
  clock_.advance(seconds(1));
  EXPECT_EQ(read().in_step, seconds(4));
  progress_.set_step(2);
  EXPECT_EQ(read().in_step, seconds(0));
  clock_.advance(seconds(1));
  progress_.set_phase(Phase::ended);
  EXPECT_EQ(read().in_step, seconds(0));
}

TEST_F(ProgressTest, TimeIsSpentOnWhatThePhasesSay) {
  clock_.advance(seconds(3));
  progress_.set_phase(Phase::training);
  clock_.advance(seconds(5));
  progress_.set_phase(Phase::data);
  clock_.advance(seconds(2));
  progress_.set_phase(Phase::backward);
  clock_.advance(seconds(1));
  progress_.set_phase(Phase::collective);
  clock_.advance(seconds(4));
  progress_.set_phase(Phase::checkpoint);
  clock_.advance(seconds(7));
  const TimeSpent expected{.compute_s = 6, .data_s = 2, .collectives_s = 4, .checkpoint_s = 7, .starting_s = 3};
  EXPECT_EQ(read().spent, expected);
  progress_.set_phase(Phase::ended);
  clock_.advance(seconds(100));
  EXPECT_EQ(read().spent, expected);
}

TEST_F(ProgressTest, WaitingInCollectivesOfABackwardIsNotComputing) {
  const auto group = progress_.add_group();
  progress_.set_phase(Phase::backward);
  const CollectiveCall call{Collective::all_reduce, ElementType::float32, 8};
  const auto first = group->begin_collective(call);
  clock_.advance(seconds(10));  // beside it
  const auto last = group->begin_collective(call);
  clock_.advance(seconds(2));
  EXPECT_EQ(read().spent, (TimeSpent{.compute_s = 10, .collectives_s = 2})) << "it may hang";
  group->end_collective(first);
  group->end_collective(last);
  EXPECT_EQ(read().spent, (TimeSpent{.compute_s = 10, .collectives_s = 2}));
  progress_.set_phase(Phase::collective);
  const auto own = group->begin_collective(call);
  clock_.advance(seconds(3));
  group->end_collective(own);  // counted once
  EXPECT_EQ(read().spent, (TimeSpent{.compute_s = 10, .collectives_s = 5}));
}

TEST_F(ProgressTest, TheOldestCollectiveIsTheOneThatIsWaitedFor) {
  const auto group = progress_.add_group();
  EXPECT_EQ(read().groups, (std::vector<GroupReading>{{.group = 1}}));
  const auto handle = group->begin_collective({Collective::broadcast});
  group->begin_collective({Collective::all_reduce});
  EXPECT_EQ(read().groups, (std::vector<GroupReading>{{1, 2, 0, Collective::broadcast}}));
  group->end_collective(handle);
  EXPECT_EQ(read().groups, (std::vector<GroupReading>{{1, 2, 1, Collective::all_reduce}}));
}

TEST_F(ProgressTest, EachGroupCountsForItself) {
  auto first = progress_.add_group(), second = progress_.add_group();
  const auto handle = second->begin_collective({Collective::barrier});
  first->end_collective(first->begin_collective({Collective::broadcast}));
  EXPECT_EQ(read().groups,
            (std::vector<GroupReading>{{1, 1, 1, Collective::broadcast}, {2, 1, 0, Collective::barrier}}));
  first.reset();  // a model is gone: what it has called still says what others can wait for
  const auto third = progress_.add_group();
  third->begin_collective({Collective::all_gather});
  EXPECT_EQ(read().groups,
            (std::vector<GroupReading>{
                {1, 1, 1, Collective::broadcast}, {2, 1, 0, Collective::barrier}, {3, 1, 0, Collective::all_gather}}));
  progress_.forget_groups();  // the next generation's
  second->end_collective(handle);
  EXPECT_TRUE(read().groups.empty());
  const auto fresh = progress_.add_group();
  fresh->begin_collective({Collective::reduce});
  EXPECT_EQ(read().groups, (std::vector<GroupReading>{{1, 1, 0, Collective::reduce}}));
}

TEST_F(ProgressTest, AGroupThatIsGoneGivesItsPlaceUpWhenThereIsNoOther) {
  std::vector<std::shared_ptr<GroupProgress>> groups;
  for (size_t i = 0; i < ProgressWord::kGroups; ++i) groups.push_back(progress_.add_group());
  groups[1].reset();
  groups[0].reset();
  const auto numbers = [this] {
    std::vector<int64_t> shown;
    for (const GroupReading& group : read().groups) shown.push_back(group.group);
    return shown;
  };
  EXPECT_EQ(numbers().front(), 1);
  const auto further = progress_.add_group();
  EXPECT_EQ(numbers().front(), 2) << "the first of those that are gone";
  EXPECT_EQ(numbers().back(), static_cast<int64_t>(ProgressWord::kGroups) + 1);
}

TEST_F(ProgressTest, MoreGroupsThanAreShownAreStillSignsOfProgress) {
  std::vector<std::shared_ptr<GroupProgress>> groups;
  for (size_t i = 0; i < ProgressWord::kGroups; ++i) groups.push_back(progress_.add_group());
  const auto further = progress_.add_group();
  clock_.advance(seconds(3));
  const auto handle = further->begin_collective({Collective::barrier});
  EXPECT_EQ(read().idle, seconds(0));
  EXPECT_EQ(read().groups.back(), (GroupReading{.group = ProgressWord::kGroups}));
  further->end_collective(handle);
}

TEST_F(ProgressTest, ACollectiveThatIsMadeOfOthersIsShownAsWhatWasCalled) {
  const auto group = progress_.add_group();
  progress_.show_collectives_as(Collective::broadcast);
  const auto handle = group->begin_collective({Collective::all_gather});
  EXPECT_EQ(read().groups.at(0).oldest, Collective::broadcast);
  progress_.show_collectives_as(Collective::none);
  group->end_collective(handle);
  group->begin_collective({Collective::all_gather});
  EXPECT_EQ(read().groups.at(0).oldest, Collective::all_gather);
}

// Ranks need not make such groups in the same order: the number comes from what they have in common.
TEST_F(ProgressTest, GroupsOfSomeRanksAreInTheLedgerAndNotAmongThoseThatAllHave) {
  const auto all = progress_.add_group();
  const auto pair = progress_.add_group_of_some();
  pair->name("pipeline", {4, 1});
  const auto last = pair->split("split_1", {0});
  const auto of_all = all->split("split_1", {4});
  const auto unnamed = progress_.add_group_of_some();
  EXPECT_EQ(unnamed->split("split_1", {0})->begin_collective({Collective::barrier}).number, 1);
  clock_.advance(seconds(5));
  const auto handle = pair->begin_collective({Collective::all_reduce});
  EXPECT_EQ(read().idle, seconds(0));
  clock_.advance(seconds(1));
  pair->end_collective(handle);
  last->begin_collective({Collective::barrier});
  EXPECT_EQ(read().groups, (std::vector<GroupReading>{{.group = 1}}));
  const std::vector<CollectiveRecord> records = reader_.collectives();
  ASSERT_EQ(records.size(), 3u);
  EXPECT_GT(records[0].group, kFirstGroupOfSome);
  progress_.add_group_of_some()->begin_collective({Collective::barrier});
  EXPECT_NE(records[0].group, reader_.collectives().back().group) << "two groups without names are two";
  EXPECT_EQ(records[1].group, number_of_group("pipeline", {1, 4}));
  EXPECT_EQ(records[1].end_ns - records[1].called_ns, Duration(seconds(1)).count());
  EXPECT_TRUE(records[2].is_under_way());
  EXPECT_NE(records[2].group, number_of_group("split_1", {4}));
  EXPECT_THAT(reader_.members(),
              ::testing::UnorderedElementsAre(GroupMembers{.group = records[1].group, .ranks = {1, 4}},
                                              GroupMembers{.group = records[2].group, .ranks = {4}},
                                              GroupMembers{.group = number_of_group("1/split_1", {4}), .ranks = {4}}));
}

TEST_F(ProgressTest, OfManyGroupsOfSomeRanksThoseThatAreThereStay) {
  const auto named = [&](int64_t rank) {
    auto group = progress_.add_group_of_some();
    group->name("one", {rank});
    return group;
  };
  constexpr auto kGroups = static_cast<int64_t>(GroupMembersTable::kGroups);
  const auto first = named(0);
  for (int64_t rank = 1; rank < 2 * kGroups; ++rank) named(rank);
  std::vector<GroupMembers> members = reader_.members();
  EXPECT_EQ(std::ssize(members), kGroups);
  std::vector<int64_t> ranks;
  for (const GroupMembers& one : members) ranks.push_back(one.ranks.at(0));
  std::ranges::sort(ranks);
  EXPECT_EQ(ranks.front(), 0) << "it is there";
  EXPECT_EQ(ranks[1], kGroups + 1) << "those before it are gone, and had their places taken";

  std::vector<std::shared_ptr<GroupProgress>> there;
  for (int64_t rank = 1; rank < kGroups; ++rank) there.push_back(named(rank));
  const auto further = named(4000), of_too_high_a_rank = named(GroupMembersTable::kRanks);
  members = reader_.members();
  EXPECT_EQ(std::ranges::find(members, std::vector<int64_t>{4000}, &GroupMembers::ranks), members.end());
  there.pop_back();
  of_too_high_a_rank->name("one", {0, static_cast<int64_t>(GroupMembersTable::kRanks)});
  EXPECT_EQ(reader_.members().size(), members.size()) << "nothing is told of it";
}

TEST_F(ProgressTest, TheLedgerHasEveryCollectiveOfEveryGroup) {
  const auto first = progress_.add_group(), second = progress_.add_group();
  progress_.set_step(3);
  const auto one = first->begin_collective({Collective::all_reduce, ElementType::float32, 4096});
  clock_.advance(seconds(2));
  second->begin_collective({Collective::barrier});
  first->end_collective(one);
  const std::vector<CollectiveRecord> records = reader_.collectives();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].group, 1);
  EXPECT_EQ(records[0].number, 1);
  EXPECT_EQ(records[0].step, 3);
  EXPECT_EQ(records[0].call.type, ElementType::float32);
  EXPECT_EQ(records[0].call.bytes, 4096);
  EXPECT_EQ(Duration(records[0].end_ns - records[0].called_ns), seconds(2));
  EXPECT_EQ(records[0].waited_ns, records[0].called_ns);
  EXPECT_FALSE(records[0].has_failed);
  EXPECT_EQ(records[1].group, 2);
  EXPECT_EQ(records[1].call.collective, Collective::barrier);
  EXPECT_TRUE(records[1].is_under_way());
  progress_.forget_groups();
  EXPECT_TRUE(reader_.collectives().empty());
}

// The order of the waits may be another on each rank, that of the calls is the same.
TEST_F(ProgressTest, ACollectiveHasItsNumberFromTheCallOn) {
  const auto group = progress_.add_group();
  const auto one = group->call_collective({Collective::all_reduce});
  const auto two = group->call_collective({Collective::broadcast});
  const auto three = group->call_collective({Collective::all_gather});
  const auto four = group->call_collective({Collective::barrier});
  EXPECT_EQ(one.number, 1);
  EXPECT_EQ(four.number, 4);
  EXPECT_EQ(read().groups, (std::vector<GroupReading>{{1, 0, 0, Collective::none}})) << "this rank waits in none";
  for (const CollectiveRecord& record : reader_.collectives()) EXPECT_TRUE(record.is_only_called());
  clock_.advance(seconds(2));
  group->wait_for_collective(three);
  EXPECT_EQ(read().groups, (std::vector<GroupReading>{{1, 3, 0, Collective::all_reduce}})) << "and all before it";
  clock_.advance(seconds(1));
  group->wait_for_collective(one);
  group->end_collective(one);
  group->end_collective(two, /*has_failed=*/true);
  EXPECT_EQ(read().groups, (std::vector<GroupReading>{{1, 3, 2, Collective::all_gather}}));
  group->end_collective(three);
  group->wait_for_collective(two);  // it has ended
  EXPECT_EQ(read().groups, (std::vector<GroupReading>{{1, 3, 3, Collective::all_gather}}));
  const std::vector<CollectiveRecord> records = reader_.collectives();
  ASSERT_EQ(records.size(), 4u);
  const std::vector kinds{Collective::all_reduce, Collective::broadcast, Collective::all_gather, Collective::barrier};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(records[i].number, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(records[i].call.collective, kinds[i]);
    EXPECT_EQ(records[i].has_failed, i == 1);
    EXPECT_EQ(records[i].is_only_called(), i == 3);
    if (i < 3) {
      EXPECT_EQ(Duration(records[i].waited_ns - records[i].called_ns), seconds(2));
    }
  }
}

TEST_F(ProgressTest, WhatEndsWithoutAnybodyWaitingIsNoTimeOfWaiting) {
  const auto group = progress_.add_group(), other = progress_.add_group();
  for (int64_t step = 1; step <= 5; ++step) {
    progress_.set_step(step);
    const auto in_background = group->call_collective({Collective::all_reduce});
    const auto first = group->call_collective({Collective::all_reduce});
    const auto last = group->call_collective({Collective::all_reduce});
    clock_.advance(seconds(2));
    group->end_collective(in_background);
    clock_.advance(seconds(1));
    group->wait_for_collective(last);
    clock_.advance(seconds(7));
    group->end_collective(first);
    group->end_collective(last);
    group->wait_for_collective(first);  // somebody comes late
    clock_.advance(seconds(1));
    const auto scope = other->begin_collective({Collective::barrier});  // as exactly after that
    clock_.advance(seconds(5));
    other->end_collective(scope);
  }
  EXPECT_EQ(read().step_time, seconds(4));
}

TEST_F(ProgressTest, WhoAsksAgainAndAgainMakesNoProgress) {
  const auto group = progress_.add_group();
  const auto handle = group->call_collective({Collective::all_reduce});
  group->wait_for_collective(handle);
  clock_.advance(seconds(3));
  group->wait_for_collective(handle);
  EXPECT_EQ(read().idle, seconds(3));
  group->end_collective(handle);
  EXPECT_EQ(read().idle, seconds(0));
}

TEST_F(ProgressTest, AScopeThatAnExceptionLeavesHasFailed) {
  const auto group = progress_.add_group();
  clock_.advance(seconds(1));
  {
    const CollectiveScope scope(group, {Collective::barrier});
  }
  try {
    const CollectiveScope scope(group, {Collective::broadcast});
    throw std::runtime_error("no");
  } catch (const std::runtime_error&) {
    const CollectiveScope scope(group, {Collective::barrier});  // while an exception is handled
  }
  const CollectiveScope uncounted(nullptr, {Collective::barrier});
  const std::vector<CollectiveRecord> records = reader_.collectives();
  ASSERT_EQ(records.size(), 3u);
  for (const CollectiveRecord& record : records) {
    EXPECT_TRUE(record.has_ended());
    EXPECT_EQ(record.has_failed, record.call.collective == Collective::broadcast);
  }
}

TEST_F(ProgressTest, WhoWaitsForADeviceIsNotInItsStepMeanwhile) {
  const auto group = progress_.add_group();
  clock_.advance(seconds(1));
  progress_.set_step(1);
  clock_.advance(seconds(2));
  const auto handle = group->launch_collective({Collective::all_reduce});
  clock_.advance(seconds(30));
  EXPECT_EQ(read().in_step, seconds(2));
  group->end_launched(handle, seconds(30));
  clock_.advance(seconds(5));
  EXPECT_EQ(read().in_step, seconds(37)) << "it may have computed beside it: nobody knows afterwards";
}

TEST_F(ProgressTest, StepsThatAreNoMarksTellOfPauses) {
  progress_.set_step(1, /*is_mark=*/false);
  clock_.advance(seconds(7));
  progress_.set_step(2, /*is_mark=*/false);
  EXPECT_EQ(read().longest_pause, seconds(7));
  EXPECT_EQ(read().marks, 0);
}

TEST_F(ProgressTest, OnlyMarksOfStepsAreWithdrawn) {
  progress_.set_step(1);
  progress_.set_step(2);
  progress_.note_report();
  progress_.withdraw_step_marks();
  EXPECT_EQ(read().marks, 1);
  progress_.set_step(3);
  EXPECT_EQ(read().marks, 2);
}

TEST(Progress, OutlivesTheWriter) {
  const ManualClock clock;
  auto progress = Progress::create(clock).ValueOrDie();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    progress.set_step(42);
    progress.set_phase(Phase::checkpoint);
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(progress.step(), 42);
  EXPECT_EQ(to_string(progress.phase()), "checkpoint");
}

TEST(Progress, RefusesMemoryThatIsNoProgressWord) {
  auto zeroes = SharedMemory::create("zeroes", sizeof(ProgressWord)).ValueOrDie();
  const auto other_version = ProgressReader::open(zeroes.descriptor().duplicate().ValueOrDie());
  EXPECT_TRUE(other_version.status().IsInvalid());
  EXPECT_NE(other_version.status().message().find("wanted 11, got 0"), std::string::npos);
  auto small = SharedMemory::create("small", 4).ValueOrDie();
  EXPECT_TRUE(ProgressReader::open(small.descriptor().duplicate().ValueOrDie()).status().IsInvalid());
}

}  // namespace
}  // namespace paceline
