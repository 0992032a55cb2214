#include "paceline/data/source/datasource.h"

#include <arrow/array.h>
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

ReadTask task_of(std::shared_ptr<arrow::RecordBatch> rows, std::optional<int64_t> num_rows = std::nullopt) {
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
  if (wrong == "odd exception") return {{.read = []() -> std::shared_ptr<arrow::RecordBatch> { throw 42; }}};
  if (wrong == "odd listing") throw 42;
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

}  // namespace
}  // namespace paceline::data
