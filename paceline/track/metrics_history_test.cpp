#include "paceline/track/metrics_history.h"

#include <arrow/array.h>
#include <arrow/scalar.h>
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "paceline/storage/local/durable.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::track {
namespace {

using ::testing::IsEmpty;
using testing::TemporaryFolder;

HistoryRow row(int64_t report, const nlohmann::json& metrics, int64_t attempt = 1) {
  return {.report = report, .attempt = attempt, .rank = 0, .time = 100.5, .checkpoint = "", .metrics = metrics};
}

std::string text_of(const arrow::Table& table, const std::string& column) {
  const auto chunked = table.GetColumnByName(column);
  if (chunked == nullptr) return "no such column";
  std::string text = chunked->type()->ToString() + ":";
  for (int64_t at = 0; at < chunked->length(); ++at)
    text.append(" ").append(chunked->GetScalar(at).ValueOrDie()->ToString());
  return text;
}

TEST(History, KeepsRowsInOrder) {
  const TemporaryFolder run;
  EXPECT_THAT(read_history(run.path()).ValueOrDie(), IsEmpty());
  auto writer = HistoryWriter::open(run.path()).ValueOrDie();
  std::vector<HistoryRow> rows;
  for (int64_t report = 0; report < 5; ++report) rows.push_back(row(report, {{"loss", 1.0 / (report + 1)}}));
  rows[3].checkpoint = "checkpoint_000003";
  for (const auto& each : rows) ASSERT_TRUE(writer.append(each).ok());
  EXPECT_THAT(read_history(run.path()).ValueOrDie(), IsEmpty());
  ASSERT_TRUE(writer.flush().ok());
  EXPECT_EQ(read_history(run.path()).ValueOrDie(), rows);
}

TEST(History, WhatIsKnownLaterJoinsTheRanksRows) {
  const TemporaryFolder run;
  auto writer = HistoryWriter::open(run.path()).ValueOrDie();
  for (const HistoryRow& line : {HistoryRow{.report = 2, .rank = 0, .metrics = {{"x", 5}}},
                                 HistoryRow{.report = 1, .rank = 1, .metrics = {{"x", 3}}},
                                 HistoryRow{.report = 1, .rank = 0, .later = true, .metrics = {{"x", 1}}},
                                 HistoryRow{.report = 1, .rank = kWholeGroup, .reduced = {{"x", 2}}},
                                 HistoryRow{.report = 1, .rank = kWholeGroup, .checkpoint = "best"}}) {
    ASSERT_TRUE(writer.append(line).ok());
  }
  ASSERT_TRUE(writer.sync().ok());
  const auto rows = read_history(run.path()).ValueOrDie();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].rank, 0);
  EXPECT_EQ(rows[0].metrics["x"], 1);
  EXPECT_EQ(rows[0].reduced["x"], 2);
  EXPECT_EQ(rows[0].checkpoint, "best");
  EXPECT_EQ(rows[1].rank, 1);
  EXPECT_TRUE(rows[1].reduced.is_null());
  EXPECT_EQ(rows[1].checkpoint, "best");
  EXPECT_EQ(rows[2].report, 2);
  EXPECT_EQ(rows[2].checkpoint, "");
}

TEST(History, WritesByItselfWhenMuchHasCome) {
  const TemporaryFolder run;
  auto writer = HistoryWriter::open(run.path()).ValueOrDie();
  for (int64_t report = 0; report < 2000; ++report) ASSERT_TRUE(writer.append(row(report, {{"loss", 0.25}})).ok());
  EXPECT_GT(read_history(run.path())->size(), 500u);
}

TEST(History, KeepsNumbersThatAreNotFinite) {
  const TemporaryFolder run;
  auto writer = HistoryWriter::open(run.path()).ValueOrDie();
  ASSERT_TRUE(writer.append(row(0, {{"loss", std::nan("")}})).ok());
  ASSERT_TRUE(writer.flush().ok());
  EXPECT_TRUE(std::isnan(read_history(run.path())->at(0).metrics["loss"].get<double>()));
}

// Whatever a kill leaves of the last line, its row is gone alone, and the next attempt's rows are whole.
TEST(History, ATornLastLineCostsOnlyItself) {
  const TemporaryFolder run;
  auto writer = HistoryWriter::open(run.path()).ValueOrDie();
  ASSERT_TRUE(writer.append(row(0, {{"loss", 0.5}})).ok());
  ASSERT_TRUE(writer.append(row(1, {{"loss", 0.25}})).ok());
  ASSERT_TRUE(writer.flush().ok());
  const std::string whole = storage::read_file(run / "metrics.jsonl").ValueOrDie();
  const size_t first = whole.find('\n') + 1;
  for (size_t size = first; size < whole.size(); ++size) {
    testing::write_file(run / "metrics.jsonl", whole.substr(0, size));
    ASSERT_EQ(read_history(run.path())->size(), 1u);
    auto next = HistoryWriter::open(run.path()).ValueOrDie();
    ASSERT_TRUE(next.append(row(1, {{"loss", 0.125}}, 2)).ok());
    ASSERT_TRUE(next.flush().ok());
    const auto rows = read_history(run.path()).ValueOrDie();
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[1].attempt, 2);
  }
}

TEST(History, ADamagedLineCostsOnlyItself) {
  const TemporaryFolder run;
  const std::string zeros(4, '\0');
  testing::write_file(run / "metrics.jsonl",
                      "{\"report\": 1}\n" + zeros + "\n[3]\n{\"report\": \"x\"}\n\n{\"report\": 2}\n");
  EXPECT_EQ(read_history(run.path())->size(), 2u);
}

// What a driver that takes a run over has to know, from a file of any length.
TEST(HistoryEnd, IsReadFromTheEndOfALongHistory) {
  const TemporaryFolder run;
  auto writer = HistoryWriter::open(run.path()).ValueOrDie();
  ASSERT_TRUE(writer.append({.report = 90'000, .rank = 1, .time = 1}).ok()) << "a rank that is far ahead";
  for (int64_t report = 1; report <= 20'000; ++report) {
    ASSERT_TRUE(
        writer.append({.report = report, .time = 2.0 + static_cast<double>(report), .metrics = {{"x", 0.5}}}).ok());
    if (report % 1000 != 0) continue;
    ASSERT_TRUE(writer.append({.report = report, .rank = kWholeGroup, .checkpoint = "c"}).ok());
  }
  ASSERT_TRUE(writer.flush().ok());
  const HistoryEnd end = read_history_end(run.path()).ValueOrDie();
  EXPECT_LT(end.lines_read, 5000);
  EXPECT_EQ(end.highest, 90'000);
  EXPECT_EQ(end.last_time, 20'002);
  EXPECT_TRUE(end.has_line_of(1000));
  EXPECT_TRUE(end.has_line_of(20'000));
  EXPECT_FALSE(end.has_line_of(21'000));
  EXPECT_EQ(read_history(run.path())->size(), 20'001u) << "marks are no rows";
}

// A kill may cut the file at any byte, and the next driver writes on: what the end tells is what the whole does.
TEST(HistoryEnd, IsThatOfTheWholeWhereverAKillCutsTheFile) {
  const TemporaryFolder run;
  std::mt19937_64 random(3);
  for (int round = 0; round < 16; ++round) {
    auto writer = HistoryWriter::open(run.path()).ValueOrDie();
    int64_t checkpoint = 0;
    ASSERT_TRUE(visit_history(run.path(), [&](const HistoryRow& row) {
                  if (!row.checkpoint.empty()) checkpoint = std::max(checkpoint, row.report);
                }).ok());
    for (int row = 0; row < 1200; ++row) {
      const auto report = checkpoint + static_cast<int64_t>(random() % 50) + 1;
      ASSERT_TRUE(writer
                      .append({.report = report,
                               .rank = static_cast<int64_t>(random() % 3),
                               .time = static_cast<double>(random() % 1000)})
                      .ok());
      if (random() % 100 != 0) continue;
      checkpoint += 1 + static_cast<int64_t>(random() % 9);
      ASSERT_TRUE(writer.append({.report = checkpoint, .rank = kWholeGroup, .checkpoint = "c"}).ok());
    }
    ASSERT_TRUE(writer.flush().ok());
    const auto size = std::filesystem::file_size(run / "metrics.jsonl");
    std::filesystem::resize_file(run / "metrics.jsonl", size - random() % 3000);

    HistoryEnd whole;
    std::set<int64_t> checkpoints;
    ASSERT_TRUE(visit_history(run.path(), [&](const HistoryRow& row) {
                  whole.highest = std::max(whole.highest, row.report);
                  whole.last_time = std::max(whole.last_time, row.time);
                  if (!row.checkpoint.empty()) checkpoints.insert(row.report);
                }).ok());
    const HistoryEnd end = read_history_end(run.path()).ValueOrDie();
    EXPECT_EQ(end.highest, whole.highest);
    EXPECT_EQ(end.last_time, whole.last_time);
    const int64_t last = checkpoints.empty() ? 0 : *checkpoints.rbegin();
    for (const int64_t one : checkpoints) EXPECT_TRUE(end.has_line_of(one));
    for (int64_t beyond = last + 1; beyond < last + 100; ++beyond) EXPECT_FALSE(end.has_line_of(beyond));
  }
}

TEST(History, TellsOtherRanksLinesFromThoseThatMayBeShown) {
  const TemporaryFolder run;
  auto writer = HistoryWriter::open(run.path()).ValueOrDie();
  const nlohmann::json tricky = {{"rank", 3}, {"report", 4}, {"text", "\"rank\":7,\"report\":1,\"time\":1.5}"}};
  for (const int64_t rank : {0, 1, 17})
    ASSERT_TRUE(writer.append({.report = 5, .rank = rank, .time = 1.8e9, .metrics = tricky}).ok());
  ASSERT_TRUE(writer.append({.report = 5, .rank = kWholeGroup, .time = 1.5, .reduced = tricky}).ok());
  ASSERT_TRUE(
      writer.append({.report = 5, .rank = kWholeGroup, .time = 1.5, .checkpoint = "c", .metrics = tricky}).ok());
  ASSERT_TRUE(writer.flush().ok());
  std::ifstream file(run / "metrics.jsonl");
  std::vector<bool> may_be;
  for (std::string line; std::getline(file, line);) may_be.push_back(may_be_shown(line));
  EXPECT_EQ(may_be, (std::vector<bool>{true, false, false, true, true}));
  EXPECT_TRUE(may_be_shown("torn"));
}

TEST(HistoryTable, HasOneColumnPerMetric) {
  auto rows =
      std::vector<HistoryRow>{row(0, {{"loss", 0.5}, {"step", 1}, {"eval", {{"accuracy", 1}, {"by_class", {1, 2}}}}}),
                              row(1, {{"loss", 1}, {"step", 2}, {"done", true}, {"note", "good"}})};
  rows[1].checkpoint = "checkpoint_000001";
  rows[1].rank = 1;
  const auto table = history_table(rows).ValueOrDie();
  ASSERT_TRUE(table->ValidateFull().ok());
  EXPECT_EQ(text_of(*table, "report"), "int64: 0 1");
  EXPECT_EQ(text_of(*table, "rank"), "int64: 0 1");
  EXPECT_EQ(text_of(*table, "time"), "double: 100.5 100.5");
  EXPECT_EQ(text_of(*table, "checkpoint"), "string: null checkpoint_000001");
  EXPECT_EQ(text_of(*table, "loss"), "double: 0.5 1");
  EXPECT_EQ(text_of(*table, "step"), "int64: 1 2");
  EXPECT_EQ(text_of(*table, "eval/accuracy"), "int64: 1 null");
  EXPECT_EQ(text_of(*table, "eval/by_class"), "string: [1,2] null");
  EXPECT_EQ(text_of(*table, "done"), "bool: null true");
  EXPECT_EQ(text_of(*table, "note"), "string: null good");
}

TEST(HistoryTable, NamesAndTypesNeverClash) {
  const auto table = history_table({row(0, {{"rank", 5}, {"a/b", 1}, {"a", {{"b", 2}}}, {"mix", 1}, {"none", nullptr}}),
                                    row(1, {{"mix", "text"}, {"big", 18446744073709551615u}})})
                         .ValueOrDie();
  ASSERT_TRUE(table->ValidateFull().ok());
  EXPECT_EQ(text_of(*table, "rank"), "int64: 0 0");
  EXPECT_EQ(text_of(*table, "metrics/rank"), "int64: 5 null");
  EXPECT_EQ(text_of(*table, "a/b"), "int64: 1 null");
  EXPECT_EQ(text_of(*table, "mix"), "string: 1 text");
  EXPECT_EQ(text_of(*table, "none"), "double: null null");
  EXPECT_EQ(text_of(*table, "big").substr(0, 12), "double: null");
  EXPECT_EQ(history_table({}).ValueOrDie()->num_columns(), 5);
}

}  // namespace
}  // namespace paceline::track
