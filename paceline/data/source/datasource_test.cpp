#include "paceline/data/source/datasource.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "paceline/data/testing_internal.h"

namespace paceline::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

int64_t tasks_of_this_process = 2;  // as if main() had set it
int64_t size_of_tasks = 24;
bool has_bits = false;

[[noreturn]] std::shared_ptr<arrow::RecordBatch> throw_a_number() {
  throw 42;  // NOLINT(bugprone-std-exception-baseclass)
}

ReadTask task_of(const std::shared_ptr<arrow::RecordBatch>& rows, std::optional<int64_t> num_rows = std::nullopt) {
  return {.read = [rows] { return rows; }, .num_rows = num_rows};
}

std::shared_ptr<arrow::RecordBatch> with_name(const arrow::RecordBatch& rows, const std::string& name) {
  return arrow::RecordBatch::Make(arrow::schema({arrow::field(name, rows.schema()->field(0)->type())}), rows.num_rows(),
                                  rows.columns());
}

// What users' functions get wrong, by the option "wrong".
std::vector<ReadTask> mistaken(const Json& options) {
  const auto rows = numbers_of({1, 2, 3});
  const std::string wrong = options.at("wrong");
  if (wrong == "global") return std::vector<ReadTask>(static_cast<size_t>(tasks_of_this_process), task_of(rows, 3));
  if (wrong == "count") return {task_of(rows, 3), task_of(rows, 4)};
  if (wrong == "negative") return {task_of(rows, -5)};
  if (wrong == "no function") return {ReadTask{}};
  if (wrong == "short column") return {task_of(arrow::RecordBatch::Make(rows->schema(), 10, rows->columns()))};
  if (wrong == "type") {
    return {task_of(arrow::RecordBatch::Make(arrow::schema({arrow::field("x", arrow::utf8())}), 3, rows->columns()))};
  }
  if (wrong == "other columns") return {task_of(with_name(*rows, "x")), task_of(with_name(*rows, "y"))};
  if (wrong == "odd exception") return {{.read = [] { return throw_a_number(); }}};
  if (wrong == "odd listing") throw_a_number();
  if (wrong == "no rows") {
    const int64_t none = options.value("none", int64_t{1});
    const bool says = options.value("says", true);
    std::vector<ReadTask> tasks(static_cast<size_t>(none),
                                task_of(numbers_of({}), says ? std::optional<int64_t>(0) : std::nullopt));
    for (const int64_t count : {3, 6}) {
      std::vector<int64_t> values(static_cast<size_t>(count), 7);
      tasks.push_back(task_of(numbers_of(values), says ? std::optional<int64_t>(count) : std::nullopt));
    }
    return tasks;
  }
  if (wrong == "nulls") {
    const auto numbers = numbers_of(std::vector<int64_t>(1024, 7));
    const auto& column = *numbers->column(0)->data();
    const std::shared_ptr<arrow::Buffer> bits = arrow::Buffer::FromString(std::string(128, '\xff'));
    const auto data = arrow::ArrayData::Make(column.type, 1024, {has_bits ? bits : nullptr, column.buffers[1]}, 0);
    return {task_of(arrow::RecordBatch::Make(numbers->schema(), 1024, {arrow::MakeArray(data)}), 1024)};
  }
  if (wrong == "sizes") {
    ReadTask task = task_of(rows, 3);
    task.size_bytes = size_of_tasks;
    return {task, task};
  }
  return {task_of(rows)};
}
PACELINE_DATASOURCE(mistaken);

// The error that somebody meets who opens the source and reads all of it.
std::string error_of(const std::string& wrong) {
  const Json options = {{"wrong", wrong}};
  const auto listing = datasource_listing("mistaken", options);
  if (!listing.ok()) return listing.status().message();
  const auto source = datasource_source("mistaken", options, *listing);
  if (!source.ok()) return source.status().message();
  for (size_t chunk = 0; chunk < (*source)->chunks().size(); ++chunk) {
    const auto rows = (*source)->read(static_cast<int64_t>(chunk), 0);
    if (!rows.ok()) return rows.status().message();
  }
  return "none";
}

TEST(DatasourceTest, MistakesAreErrorsThatNameTheTask) {
  EXPECT_EQ(error_of("nothing"), "none");
  EXPECT_EQ(error_of("count"), "task 1 of the datasource mistaken has given 3 rows; its num_rows is 4");
  EXPECT_EQ(error_of("negative"), "task 0 of the datasource mistaken says num_rows -5");
  EXPECT_EQ(error_of("no function"), "task 0 of the datasource mistaken has no function `read`");
  EXPECT_THAT(error_of("short column"), HasSubstr("task 0 of the datasource mistaken has given no valid batch: "));
  EXPECT_THAT(error_of("type"), HasSubstr("task 0 of the datasource mistaken has given no valid batch: "));
  EXPECT_EQ(error_of("other columns"),
            "task 1 of the datasource mistaken has given other columns than task 0: y: int64; wanted: x: int64");
  EXPECT_EQ(error_of("odd exception"), "task 0 of the datasource mistaken has thrown what is no std::exception");
  EXPECT_EQ(error_of("odd listing"), "the datasource mistaken has thrown what is no std::exception");
  EXPECT_EQ(datasource_listing("mistaken", Json::object()).status().message(),
            "the datasource mistaken: its options: key 'wrong' not found");
}

// Otherwise a run would train on other rows than the driver has counted.
TEST(DatasourceTest, AnotherListingIsRefused) {
  const Json options = {{"wrong", "global"}};
  tasks_of_this_process = 20;
  const DatasourceListing listing = datasource_listing("mistaken", options).ValueOrDie();
  tasks_of_this_process = 2;
  EXPECT_THAT(datasource_source("mistaken", options, listing).status().message(),
              AllOf(HasSubstr("2 of them instead of 20"), HasSubstr("give what is set there as options")));
}

TEST(DatasourceTest, TasksWithoutASizeHaveThatOfTheFirst) {
  const Json options = {{"wrong", "count"}};
  const auto source =
      datasource_source("mistaken", options, datasource_listing("mistaken", options).ValueOrDie()).ValueOrDie();
  EXPECT_EQ(source->chunks()[0].bytes, 24);
  EXPECT_EQ(source->chunks()[1].bytes, 32);
}

std::unique_ptr<Source> source_of(const Json& options) {
  return datasource_source("mistaken", options, datasource_listing("mistaken", options).ValueOrDie()).ValueOrDie();
}

// Otherwise all of them would go into one window, whatever the budget.
TEST(DatasourceTest, TasksWithoutASizeHaveThatOfTheFirstThatHasRows) {
  const auto said = source_of({{"wrong", "no rows"}, {"none", 40}});
  EXPECT_EQ(said->chunks()[0].bytes, 0);
  EXPECT_EQ(said->chunks()[40].bytes, 24);
  EXPECT_EQ(said->chunks()[41].bytes, 48);
  const auto unsaid = source_of({{"wrong", "no rows"}, {"none", 2}, {"says", false}});
  for (const ChunkSize& chunk : unsaid->chunks()) EXPECT_EQ(chunk.bytes, 24);
  const auto unknown = source_of({{"wrong", "no rows"}, {"none", 40}, {"says", false}});
  for (const ChunkSize& chunk : unknown->chunks()) EXPECT_EQ(chunk.bytes, int64_t{1} << 20);
}

// Which rows are mixed together goes by sizes: a state means others with others.
TEST(DatasourceTest, SizesAreOfTheFingerprint) {
  const Json options = {{"wrong", "sizes"}};
  size_of_tasks = 24;
  const uint64_t before = source_of(options)->fingerprint();
  EXPECT_EQ(source_of(options)->fingerprint(), before);
  const DatasourceListing listing = datasource_listing("mistaken", options).ValueOrDie();
  size_of_tasks = 25;
  EXPECT_NE(source_of(options)->fingerprint(), before);
  EXPECT_THAT(datasource_source("mistaken", options, listing).status().message(),
              HasSubstr("numbers of rows or bytes"));
  // Rows may have bits for nulls in one process, and none in another.
  const Json found = {{"wrong", "nulls"}};
  has_bits = false;
  const auto without = source_of(found);
  has_bits = true;
  const auto with = source_of(found);
  EXPECT_EQ(without->fingerprint(), with->fingerprint());
  EXPECT_EQ(without->chunks()[0].bytes, with->chunks()[0].bytes);
}

}  // namespace
}  // namespace paceline::data
