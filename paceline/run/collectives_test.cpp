#include "paceline/run/collectives.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "paceline/testing/temporary_folder.h"

namespace paceline::run {
namespace {

using ::testing::HasSubstr;

KeptCollectives some_of(int64_t rank) {
  KeptCollectives kept{.rank = rank, .world_size = 2};
  for (int64_t i = 0; i < 9; ++i) {
    kept.records.push_back({.position = i,
                            .group = 1 + i % 2,
                            .number = 1 + i / 2,
                            .call = {.collective = static_cast<Collective>(1 + i),
                                     .type = static_cast<ElementType>(1 + i),
                                     .bytes = 1 << (4 + i)},
                            .step = i,
                            .begin_ns = 1'790'000'000'000'000'000 + i,
                            .end_ns = i < 8 ? 1'790'000'000'000'001'000 + i : 0});
  }
  return kept;
}

void expect_same(const KeptCollectives& got, const KeptCollectives& wanted) {
  EXPECT_EQ(got.rank, wanted.rank);
  EXPECT_EQ(got.world_size, wanted.world_size);
  EXPECT_EQ(encode_records(got.records), encode_records(wanted.records));
}

TEST(Collectives, ARecordingComesBackFromItsBytes) {
  const std::string bytes = encode_flight_recording(some_of(1));
  expect_same(decode_flight_recording(bytes).ValueOrDie(), some_of(1));
  EXPECT_TRUE(decode_flight_recording(bytes.substr(0, bytes.size() / 2)).status().IsInvalid());
}

TEST(Collectives, NumbersThatCannotBeAreRefused) {
  for (const int64_t bytes : {int64_t{-1}, INT64_MAX}) {
    KeptCollectives damaged = some_of(0);
    damaged.records.front().call.bytes = bytes;
    EXPECT_THAT(decode_flight_recording(encode_flight_recording(damaged)).status().message(),
                HasSubstr("numbers that cannot be: bytes " + std::to_string(bytes)));
  }
}

TEST(Collectives, TheLastAttemptsStay) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(read_kept_collectives(folder.path()).status().message(), HasSubstr("there are no collectives in"));
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
