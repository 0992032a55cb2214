#include "paceline/data/dataset/dataset.h"

#include <arrow/table.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "paceline/core/error.h"
#include "paceline/data/dataset/read_api.h"
#include "paceline/data/plan/codec.h"
#include "paceline/data/testing_internal.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::data {
namespace {

namespace compute = arrow::compute;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> rows_of(const Dataset& dataset, int64_t limit = 1'000'000) {
  const auto table = dataset.take(limit)->CombineChunksToBatch().ValueOrDie();
  return values_of(*table);
}

template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> add_hundred(const std::shared_ptr<arrow::RecordBatch>& rows,
                                                               uint64_t) {
  std::vector<int64_t> values = values_of(*rows);
  for (int64_t& value : values) value += 100;
  return numbers_of(values);
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> first_row(const std::shared_ptr<arrow::RecordBatch>& rows,
                                                             uint64_t) {
  return rows->Slice(0, 1);
}

void unregistered() {}

const bool registered = [] {
  register_map_batches("add_hundred", reinterpret_cast<FunctionAddress>(add_hundred), add_hundred);
  register_map_batches("first_row", reinterpret_cast<FunctionAddress>(first_row), first_row);
  return true;
}();

TEST(Dataset, StepsDoWhatTheySay) {
  const Dataset ten = range(10);
  EXPECT_THAT(rows_of(ten.filter(compute::greater(compute::field_ref("id"), compute::literal(int64_t{7})))),
              ElementsAre(8, 9));
  EXPECT_THAT(rows_of(ten.limit(3).union_with({ten.limit(2)})), ElementsAre(0, 1, 2, 0, 1));
  const Dataset doubled =
      ten.with_column("twice", compute::call("add", {compute::field_ref("id"), compute::field_ref("id")}));
  EXPECT_THAT(doubled.columns(), ElementsAre("id", "twice"));
  EXPECT_THAT(rows_of(doubled.select_columns({"twice"}).limit(3)), ElementsAre(0, 2, 4));
  EXPECT_THAT(doubled.drop_columns({"id"}).rename_columns({{"twice", "even"}}).columns(), ElementsAre("even"));
  EXPECT_EQ(ten.repartition(4).num_blocks(), 4);
  EXPECT_EQ(doubled.explain(), "Range\nWithColumn(twice = add(id, id))\n");
}

TEST(Dataset, AShuffleIsThatOfItsSeed) {
  const Dataset numbers = range(100);
  const auto mixed = rows_of(numbers.random_shuffle({.seed = 7}));
  EXPECT_EQ(mixed, rows_of(numbers.random_shuffle({.seed = 7})));
  EXPECT_NE(mixed, rows_of(numbers.random_shuffle({.seed = 8})));
  EXPECT_NE(rows_of(numbers.random_shuffle()), rows_of(numbers.random_shuffle()));
}

TEST(Dataset, PartsHaveAllRows) {
  const Dataset numbers = range(10);
  const auto parts = numbers.split(3);
  EXPECT_THAT(rows_of(parts[0]), ElementsAre(0, 1, 2));
  EXPECT_THAT(rows_of(parts[2]), ElementsAre(6, 7, 8, 9));
  EXPECT_EQ(numbers.split(3, {.equal = true})[2].count(), 3);
  EXPECT_THAT(rows_of(numbers.split_at_indices({2, 9})[2]), ElementsAre(9));
  const auto [train, test] = numbers.train_test_split(0.25);
  EXPECT_EQ(train.count(), 7);
  EXPECT_THAT(rows_of(test), ElementsAre(7, 8, 9));
}

TEST(Dataset, FunctionsOfTheProgramAreFoundByName) {
  const Dataset made = range(5).map_batches(add_hundred, {.batch_size = 2, .udf_modifying_row_count = false});
  EXPECT_EQ(made.count(), 5);
  EXPECT_THAT(rows_of(made), ElementsAre(100, 101, 102, 103, 104));
  EXPECT_THAT(rows_of(range(5).map_batches("first_row", {.batch_size = 2})), ElementsAre(0, 2, 4));
  EXPECT_THAT(made.explain(), HasSubstr("MapBatches(add_hundred)"));
  EXPECT_THAT(made.stats(), HasSubstr("MapBatches(add_hundred): 1 blocks\n* Rows: 5 in, 5 out, 5 in a block"));
  const auto travelled = decode_plans(arrow::Buffer::FromString(encode_plans({{"x", made.plan()}}).ValueOrDie()));
  EXPECT_EQ(rows_of(Dataset(travelled.ValueOrDie().at("x"))), rows_of(made));

  EXPECT_THAT(message_of([] { range(1).map_batches(unregistered); }), HasSubstr("PACELINE_MAP_BATCHES(your_function)"));
  EXPECT_THAT(message_of([] { range(1).map_batches("nothing"); }), HasSubstr("registered: add_hundred, first_row"));
  EXPECT_THAT(message_of([] { range(5).map_batches(first_row, {.udf_modifying_row_count = false}).take(); }),
              HasSubstr("the function first_row has failed: it gave 1 rows for 5"));
}

TEST(Dataset, WritesWhatItReads) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/numbers";
  range(10).repartition(3).write_parquet(path);
  const Dataset read = read_parquet(path);
  EXPECT_EQ(read.num_blocks(), 3);
  EXPECT_EQ(read.count(), 10);
  std::vector<int64_t> all(10);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(rows_of(read), all);
  EXPECT_THAT(read.input_files(), ElementsAre(path));
  EXPECT_TRUE(read.schema()->Equals(*range(1).schema(), false));
  EXPECT_EQ(rows_of(read.materialize()), all);
}

TEST(Dataset, ReadersTakeOptions) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder.path() + "/a.csv") << "1;2\n3;4\n";
  const Dataset rows =
      read_csv(folder.path() + "/a.csv",
               {.delimiter = ';', .column_names = {"x", "y"}, .files = {.columns = std::vector<std::string>{"y"}}});
  EXPECT_THAT(rows_of(rows), ElementsAre(2, 4));
  EXPECT_THAT(message_of([] { read_parquet({}); }), HasSubstr("read_parquet() was given no path"));
  EXPECT_THAT(message_of([] { read_text("a", {.shuffle = "rows"}); }), HasSubstr("allowed: \"files\""));
}

}  // namespace
}  // namespace paceline::data
