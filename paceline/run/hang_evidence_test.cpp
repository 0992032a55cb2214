#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "paceline/run/hang_evidence.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

HangEvidence evidence_of(const std::string& name) {
  policy::RankProgress waiting{.rank = 0}, away{.rank = 1}, finished{.rank = 2, .finished = true};
  waiting.progress = {.worker = {1}, .step = 12, .phase = Phase::collective, .idle_s = 41};
  away.progress = {.worker = {2}, .step = 12, .phase = Phase::training, .idle_s = 41};
  HangEvidence evidence{.hang = found_hang(name, 2, {.text = "rank 1 makes no progress", .suspects = {1}, .witness = 1},
                                           {waiting, away, finished})};
  evidence.workers = {{.worker = 1, .rank = 0}, {.worker = 2, .rank = 1}};
  evidence.workers[1].stacks.threads = {{.tid = 7, .name = "main", .frames = {{.function = "train_loop"}}}};
  return evidence;
}

TEST(HangEvidence, WhatIsKeptIsRead) {
  const testing::TemporaryFolder run;
  ASSERT_TRUE(keep_hang(run.path(), evidence_of("2026-11-28T10:00:00Z")).ok());
  EXPECT_THAT(hang_names(run.path()), ElementsAre("2026-11-28T10:00:00Z"));
  ASSERT_TRUE(keep_hang(run.path(), evidence_of("2026-11-27T10:00:00Z")).ok());
  const auto hangs = list_hangs(run.path());
  ASSERT_EQ(hangs.size(), 2u);
  EXPECT_EQ(hangs[0].name, "2026-11-27T10:00:00Z");
  EXPECT_EQ(Json(hangs[1]), Json(evidence_of("2026-11-28T10:00:00Z").hang));
  const HangEvidence read = read_hang(run.path(), hangs[1].name).ValueOrDie();
  EXPECT_EQ(read.hang.suspects, std::vector<int64_t>{1});
  ASSERT_EQ(read.workers.size(), 2u);
  EXPECT_EQ(read.workers[1].stacks.threads[0].frames[0].function, "train_loop");
  EXPECT_EQ(read.stacks, "");
}

TEST(HangEvidence, PeopleReadTexts) {
  const testing::TemporaryFolder run;
  const std::string folder = keep_hang(run.path(), evidence_of("now")).ValueOrDie();
  EXPECT_EQ(folder, run.path() + "/hang/now");
  const std::string report = text_of(folder + "/report.txt");
  EXPECT_THAT(report, HasSubstr("rank 1 makes no progress\n\nrank 0 "));
  EXPECT_THAT(report, HasSubstr("\nrank 1 is in step 12 (training) for 41 s"));
  EXPECT_THAT(report, HasSubstr("\nrank 2 has returned from its train loop\n"));
  EXPECT_THAT(text_of(folder + "/stacks.txt"), HasSubstr("train_loop"));
}

TEST(HangEvidence, ARunThatHasNeverHungHasNone) {
  const testing::TemporaryFolder run;
  EXPECT_THAT(list_hangs(run.path()), IsEmpty());
  EXPECT_TRUE(read_hang(run.path(), "now").status().IsKeyError());
}

TEST(HangEvidence, OnlyNamesOfWhatIsThereAreRead) {
  const testing::TemporaryFolder run;
  write(run.path() + "/secret/hang.json", R"({"text": "no"})");
  ASSERT_TRUE(keep_hang(run.path(), evidence_of("now")).ok());
  std::filesystem::create_directory_symlink(run.path() + "/secret", run.path() + "/hang/link");
  for (const char* name : {"../secret", "link", "", ".", "..", "now/../now"}) {
    EXPECT_TRUE(read_hang(run.path(), name).status().IsKeyError()) << name;
  }
  EXPECT_EQ(list_hangs(run.path()).size(), 1u);
}

TEST(HangEvidence, OfAnEarlierDriverThereAreTexts) {
  const testing::TemporaryFolder run;
  const std::string folder = run.path() + "/hang/2025-01-01T00:00:00Z/";
  write(folder + "report.txt", "rank 1 makes no progress\n\nrank 0 waits\n");
  write(folder + "stacks.txt", "rank 1, process 7\n  train_loop\n");
  write(folder + "progress.json", R"([{"rank": 1, "step": 12, "phase": "training", "idle_s": 41.0}, {"rank": "x"}])");
  const HangEvidence read = read_hang(run.path(), "2025-01-01T00:00:00Z").ValueOrDie();
  EXPECT_EQ(read.hang.text, "rank 1 makes no progress");
  ASSERT_EQ(read.hang.ranks.size(), 1u);
  EXPECT_THAT(read.hang.ranks[0].standing, HasSubstr("step 12"));
  EXPECT_THAT(read.stacks, HasSubstr("train_loop"));
}

TEST(HangEvidence, AVerdictThatCannotBeReadLeavesTheTexts) {
  const testing::TemporaryFolder run;
  const std::string folder = keep_hang(run.path(), evidence_of("now")).ValueOrDie();
  for (const char* damaged : {"", "{\"text\": 7", R"({"text": 7})", "[]"}) {
    write(folder + "/hang.json", damaged);
    EXPECT_EQ(read_hang(run.path(), "now").ValueOrDie().hang.text, "rank 1 makes no progress") << damaged;
  }
}

}  // namespace
}  // namespace paceline::run
