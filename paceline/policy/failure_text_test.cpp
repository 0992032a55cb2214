#include "paceline/policy/failure_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::policy {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Failure exception(int64_t rank, std::string text, bool collateral = false) {
  return {.kind = FailureKind::exception,
          .worker = {rank + 1},
          .rank = rank,
          .node = "a",
          .exception = "std::runtime_error",
          .text = std::move(text),
          .collateral = collateral};
}

TEST(FailureText, SaysWhoWhatWhereAndWhereToLook) {
  Failure failure{.kind = FailureKind::exit, .worker = {7}, .rank = 1, .node = "a"};
  failure.end.status = {.signal = 11, .core_dumped = true};
  failure.end.step = 12;
  failure.end.phase = Phase::backward;
  failure.end.last_lines = {"loss 0.5", "loss 0.4"};
  failure.end.log_file = "results/x/logs/worker_7.log";
  EXPECT_EQ(error_text({failure}, 4),
            "Rank 1 of 4 on node a crashed with SIGSEGV (core dumped) in step 12 (backward)\n"
            "Last lines that it wrote:\n"
            "  | loss 0.5\n"
            "  | loss 0.4\n"
            "All that it wrote: results/x/logs/worker_7.log");
}

TEST(FailureText, ShowsTheUsersFrames) {
  Failure failure = exception(0, "bad shape");
  failure.frames = {"loss (train.cpp:14)", "train_loop (train.cpp:40)"};
  EXPECT_EQ(error_text({failure}, 1),
            "Rank 0 of 1 on node a failed with std::runtime_error: bad shape\n"
            "  at loss (train.cpp:14)\n"
            "  at train_loop (train.cpp:40)");
}

TEST(FailureText, LeavesOutWhatTheCauseLineHasSaid) {
  EXPECT_EQ(beyond_cause_line("Rank 0 of 1 failed: bad shape\n  at loss (train.cpp:14)\nAll that it wrote: a.log"),
            "  at loss (train.cpp:14)\nAll that it wrote: a.log");
  EXPECT_EQ(beyond_cause_line("the run folder cannot be written"), "");
  const std::string shortened_there(301, 'a');
  EXPECT_EQ(beyond_cause_line(shortened_there + "\nb"), shortened_there + "\nb");
}

TEST(FailureText, ShowsTheStackOfACrash) {
  Failure failure{.kind = FailureKind::exit, .worker = {7}, .rank = 1, .node = "a", .end = {.status = {.signal = 11}}};
  failure.end.crash = CrashFacts{.code = 1, .address = 0, .frames = {"write (train.cpp:3)", "main (train.cpp:40)"}};
  EXPECT_EQ(error_text({failure}, 2),
            "Rank 1 of 2 on node a crashed with SIGSEGV: it used address 0x0, a null pointer\n"
            "  at write (train.cpp:3)\n"
            "  at main (train.cpp:40)");
}

TEST(FailureText, SaysWhatToDoWhereThatIsKnown) {
  Failure failure = exception(0, "cannot write model.pt: No space left on device");
  EXPECT_THAT(error_text({failure}, 1), HasSubstr("\nWhat to do: a disk is full: df -h tells which; "));
}

TEST(FailureText, TheSameErrorOnManyRanksIsShownOnce) {
  const std::string text =
      error_text({exception(3, "batch 17 at 0x7f3a is empty"), exception(0, "batch 9 at 0xff is empty"),
                  exception(1, "batch 4 at 0x1 is empty"), exception(2, "another")},
                 8);
  EXPECT_THAT(text,
              StartsWith("Ranks 0-1, 3 of 8 on node a failed with std::runtime_error: batch 17 at 0x7f3a is empty"));
  EXPECT_THAT(text, Not(HasSubstr("batch 9")));
  EXPECT_THAT(text, HasSubstr("\nRank 2 of 8 on node a failed with std::runtime_error: another"));
}

TEST(FailureText, DifferentExitCodesAreDifferentErrors) {
  Failure first{.kind = FailureKind::exit, .worker = {1}, .rank = 0, .node = "a", .end = {.status = {.exit_code = 7}}};
  Failure second{.kind = FailureKind::exit, .worker = {2}, .rank = 1, .node = "a", .end = {.status = {.exit_code = 8}}};
  const std::string text = error_text({first, second}, 2);
  EXPECT_THAT(text, HasSubstr("Rank 0 of 2 on node a exited with code 7"));
  EXPECT_THAT(text, HasSubstr("Rank 1 of 2 on node a exited with code 8"));
}

TEST(FailureText, TheCauseComesBeforeCollateralFailures) {
  const std::string text =
      error_text({exception(0, "connection closed by peer", true), exception(1, "out of range")}, 2);
  EXPECT_THAT(text, StartsWith("Rank 1 of 2"));
  EXPECT_THAT(text, HasSubstr("\nAs a consequence rank 0 of 2 on node a failed with std::runtime_error: connection"));
}

TEST(FailureText, LongTextsKeepBothEnds) {
  const std::string text = error_text({exception(0, "begin" + std::string(100000, 'x') + "end")}, 1);
  EXPECT_LT(text.size(), 2500u);
  EXPECT_THAT(text, HasSubstr("begin"));
  EXPECT_THAT(text, ::testing::EndsWith("end"));
  EXPECT_THAT(text, HasSubstr("characters left out"));
}

TEST(FailureText, ShorteningNeverSplitsACharacter) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "é";
  for (size_t limit = 4; limit < 40; ++limit) {
    const std::string result = shortened(text, limit);
    EXPECT_NO_THROW((void)Json(result).dump()) << limit;
  }
}

TEST(FailureText, EachRankHasItsOwnError) {
  const RankErrors errors = errors_by_rank({exception(0, "zero"), exception(1, "one"), exception(1, "later")}, 2);
  EXPECT_EQ(errors.at(0), "Rank 0 of 2 on node a failed with std::runtime_error: zero");
  EXPECT_EQ(errors.at(1), "Rank 1 of 2 on node a failed with std::runtime_error: one");
}

TEST(FailureText, ARankThatOnlyLostAPeerHasNoErrorOfItsOwnBesideTheCause) {
  const Failure lost = exception(0, "peer is gone", /*collateral=*/true);
  EXPECT_EQ(errors_by_rank({lost, exception(1, "one")}, 2).count(0), 0u);
  EXPECT_EQ(errors_by_rank({lost}, 2).count(0), 1u) << "the only thing known";
  const Failure hang{.kind = FailureKind::hang, .text = "nobody moves"};
  EXPECT_EQ(errors_by_rank({hang, lost}, 2).count(0), 1u) << "no rank is the cause";
}

TEST(FailureText, CauseLineIsOneLine) {
  EXPECT_EQ(cause_line({exception(1, "first\nsecond")}, 2),
            "rank 1 of 2 on node a failed with std::runtime_error: first second");
}

TEST(FailureText, Ranges) {
  EXPECT_EQ(ranges_text({}), "");
  EXPECT_EQ(ranges_text({0, 2, 3, 4, 9}), "0, 2-4, 9");
}

TEST(FailureText, SeveralRanksWereKilled) {
  std::vector<Failure> killed;
  for (const int64_t rank : {0, 1}) {
    killed.push_back({.kind = FailureKind::exit, .worker = {rank + 1}, .rank = rank, .node = "a"});
    killed.back().end.status = {.signal = 9};
  }
  EXPECT_THAT(error_text(killed, 2), StartsWith("Ranks 0-1 of 2 on node a were killed by SIGKILL"));
}

TEST(FailureText, TenThousandRanks) {
  std::vector<Failure> failures;
  for (int64_t rank = 0; rank < 10'000; ++rank) failures.push_back(exception(rank, "step " + std::to_string(rank)));
  EXPECT_THAT(error_text(failures, 10'000), StartsWith("Ranks 0-9999 of 10000"));
}

}  // namespace
}  // namespace paceline::policy
