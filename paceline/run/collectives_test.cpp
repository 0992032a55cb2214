#include "paceline/run/collectives.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "paceline/core/pickle.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::run {
namespace {

using ::testing::HasSubstr;

KeptCollectives some_of(int64_t rank) {
  KeptCollectives kept{.rank = rank, .world_size = 2, .has_ended = rank == 1, .reading = {}};
  kept.reading.groups = {{.group = 2, .ranks = {1}}};
  kept.reading.taken_ns = 1'790'000'000'000'002'000;
  for (int64_t i = 0; i < 9; ++i) {
    kept.reading.records.push_back({.position = i,
                                    .group = 1 + i % 2,
                                    .number = 1 + i / 2,
                                    .call = {.collective = static_cast<Collective>(1 + i),
                                             .type = static_cast<ElementType>(1 + i),
                                             .bytes = 1 << (4 + i)},
                                    .step = i,
                                    .called_ns = 1'790'000'000'000'000'000 + i,
                                    .waited_ns = i < 7 ? 1'790'000'000'000'000'500 + i : 0,
                                    .end_ns = i < 6 ? 1'790'000'000'000'001'000 + i : 0,
                                    .has_failed = i == 5,
                                    .is_on_device = i == 4});
  }
  return kept;
}

void expect_same(const KeptCollectives& got, const KeptCollectives& wanted) {
  EXPECT_EQ(got.rank, wanted.rank);
  EXPECT_EQ(got.world_size, wanted.world_size);
  EXPECT_EQ(got.has_ended, wanted.has_ended);
  EXPECT_EQ(got.reading.taken_ns, wanted.reading.taken_ns);
  EXPECT_EQ(got.reading.groups, wanted.reading.groups);
  EXPECT_EQ(got.reading.records, wanted.reading.records);
}

TEST(Collectives, ARecordingComesBackFromItsBytes) {
  const std::string bytes = encode_flight_recording(some_of(1));
  expect_same(decode_flight_recording(bytes).ValueOrDie(), some_of(1));
  EXPECT_TRUE(decode_flight_recording(bytes.substr(0, bytes.size() / 2)).status().IsInvalid());
}

// As PyTorch's tools know them: what fails stays where it was.
TEST(Collectives, TheStatesAreThoseOfTheFlightRecorder) {
  const Json recording = decode_pickle(encode_flight_recording(some_of(0))).ValueOrDie();
  std::vector<std::string> states;
  for (const Json& entry : recording["entries"]) states.push_back(entry["state"]);
  EXPECT_EQ(states, (std::vector<std::string>{"completed", "completed", "completed", "completed", "completed",
                                              "started", "started", "scheduled", "scheduled"}));
  const Json& failed = recording["entries"][5];
  EXPECT_TRUE(failed["time_discovered_completed_ns"].is_null());
  EXPECT_EQ(failed["retired"], true);
  EXPECT_EQ(recording["entries"][7]["time_discovered_started_ns"], nullptr);
  EXPECT_EQ(recording["pg_config"]["1"]["ranks"], "[0,1]");
  EXPECT_EQ(recording["pg_config"]["2"]["ranks"], "[1]");
  const Json& status = recording["pg_status"]["2"];  // numbers 1 to 4, of which the third has failed
  EXPECT_EQ(status["last_enqueued_collective"], 4);
  EXPECT_EQ(status["last_started_collective"], 3);
  EXPECT_EQ(status["last_completed_collective"], 2);
}

TEST(Collectives, NumbersThatCannotBeAreRefused) {
  for (const int64_t bytes : {int64_t{-1}, INT64_MAX}) {
    KeptCollectives damaged = some_of(0);
    damaged.reading.records.front().call.bytes = bytes;
    EXPECT_THAT(decode_flight_recording(encode_flight_recording(damaged)).status().message(),
                HasSubstr("numbers that cannot be: bytes " + std::to_string(bytes)));
  }
}

// Of damaged memory, or of more groups than are told.
TEST(Collectives, AGroupWhoseRanksAreNotKnownIsSaidToBeOne) {
  KeptCollectives kept = some_of(0);
  kept.reading.groups = {{.group = 2, .ranks = {}}};
  kept.reading.records[0].group = kFirstGroupOfSome + 7;
  const Json recording = decode_pickle(encode_flight_recording(kept)).ValueOrDie();
  EXPECT_EQ(recording["pg_config"][std::to_string(kFirstGroupOfSome + 7)]["desc"], "group of ranks that are not known");
  EXPECT_EQ(recording["pg_config"][std::to_string(kFirstGroupOfSome + 7)]["ranks"], "[0]") << "nobody is missing";
  EXPECT_EQ(recording["pg_config"]["2"]["ranks"], "[]");
}

TEST(Collectives, TheLastAttemptsStay) {
  const testing::TemporaryFolder folder;
  EXPECT_TRUE(read_kept_collectives(folder.path()).ValueOrDie().ranks.empty());
  for (int64_t attempt = 1; attempt <= kAttemptsKept + 1; ++attempt) {
    for (const int64_t rank : {1, 0}) ASSERT_TRUE(keep_collectives(folder.path(), {attempt}, some_of(rank)).ok());
  }
  const CollectivesOfAttempt found = read_kept_collectives(folder.path()).ValueOrDie();
  EXPECT_EQ(found.attempt.value, kAttemptsKept + 1);
  ASSERT_EQ(found.ranks.size(), 2u);
  expect_same(found.ranks[0], some_of(0));
  expect_same(found.ranks[1], some_of(1));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/collectives/attempt_1"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/collectives/attempt_2/rank_0"));
}

TEST(Collectives, AFileOfSomethingElseIsNamed) {
  const testing::TemporaryFolder folder;
  ASSERT_TRUE(keep_collectives(folder.path(), {1}, some_of(0)).ok());
  std::ofstream(folder.path() + "/collectives/attempt_1/rank_0") << "something else";
  EXPECT_THAT(read_kept_collectives(folder.path()).status().message(),
              ::testing::AllOf(HasSubstr("attempt_1/rank_0"), HasSubstr("no pickle")));
}

}  // namespace
}  // namespace paceline::run
