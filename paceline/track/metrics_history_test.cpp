#include "paceline/track/metrics_history.h"

#include <arrow/array.h>
#include <arrow/scalar.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

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
