#include "paceline/data/dataset/dataset.h"

#include <arrow/array.h>
#include <arrow/filesystem/mockfs.h>
#include <arrow/json/from_string.h>
#include <arrow/table.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "paceline/core/error.h"
#include "paceline/data/dataset/read_api.h"
#include "paceline/data/plan/codec.h"
#include "paceline/data/testing_internal.h"
#include "paceline/storage/objects/custom.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::data {
namespace {

namespace compute = arrow::compute;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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

std::vector<ReadTask> threes(const Json& options) {
  std::vector<ReadTask> tasks;
  for (int64_t first = 0; first < options.at("rows"); first += 3) {
    tasks.push_back({.read =
                         [first, fails = options.value("fails_at", int64_t{-1})] {
                           if (first == fails) throw std::runtime_error("no more");
                           return numbers_of({first, first + 1, first + 2});
                         },
                     .num_rows = options.value("counts", true) ? std::optional<int64_t>(3) : std::nullopt});
  }
  return tasks;
}
PACELINE_DATASOURCE(threes);

std::vector<ReadTask> unregistered_source(const Json&) {
  return {};
}

// What was called, in its order.
struct Notes : Datasink {
  void on_write_start(const arrow::Schema& columns) override { text += columns.field(0)->name(); }
  void write(const std::shared_ptr<arrow::RecordBatch>& block) override {
    text += "+" + std::to_string(block->num_rows());
  }
  void on_write_complete() override { text += " done"; }
  void on_write_failed() noexcept override { text += " failed"; }
  std::string text;
};

arrow::Result<std::shared_ptr<arrow::RecordBatch>> first_row(const std::shared_ptr<arrow::RecordBatch>& rows,
                                                             uint64_t) {
  return rows->Slice(0, 1);
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> fail_late(const std::shared_ptr<arrow::RecordBatch>& rows,
                                                             uint64_t) {
  if (rows->num_rows() > 0 && values_of(*rows).front() > 5) return arrow::Status::Invalid("late");
  return rows;
}

void unregistered() {}

const bool registered = [] {
  register_map_batches("add_hundred", reinterpret_cast<FunctionAddress>(add_hundred), add_hundred);
  register_map_batches("fail_late", reinterpret_cast<FunctionAddress>(fail_late), fail_late);
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

TEST(Dataset, DatasetsAreMixedZippedAndCached) {
  const Dataset odd = range(4), even = range(40).random_shuffle({.seed = 3});
  const auto mixed = rows_of(odd.mix({even}, {.weights = {1, 3}}));
  EXPECT_EQ(mixed.size(), 44u);
  EXPECT_EQ(odd.mix({even}, {.stopping_condition = MixStop::first}).count(), 8);
  EXPECT_THAT(message_of([&] { odd.mix({even}, {.weights = {1}}); }), HasSubstr("1 weights for 2 datasets"));
  EXPECT_THAT(range(3).zip({range(3)}).columns(), ElementsAre("id", "id_1"));
  const testing::TemporaryFolder folder;
  const Dataset cached = even.cache({.path = folder.path() + "/cache"});
  EXPECT_EQ(rows_of(cached), rows_of(even));
  EXPECT_FALSE(std::filesystem::is_empty(folder.path() + "/cache"));
  EXPECT_EQ(rows_of(even.cache()), rows_of(even));
}

std::string text_of(const std::shared_ptr<arrow::Scalar>& value) {
  return value->ToString();
}

TEST(Dataset, AggregatesAreOfAllRows) {
  const auto rows = arrow::json::ArrayFromJSONString(
                        arrow::struct_({arrow::field("x", arrow::int32()), arrow::field("name", arrow::utf8())}),
                        R"([[3, "c"], [1, "a"], [null, "c"], [8, null], [4, "a"]])")
                        .ValueOrDie();
  const Dataset dataset = from_arrow({arrow::RecordBatch::FromStructArray(rows).ValueOrDie()}).repartition(3);
  EXPECT_EQ(text_of(dataset.sum("x")), "16");
  EXPECT_EQ(text_of(dataset.min("x")), "1");
  EXPECT_EQ(text_of(dataset.max("name")), "c");
  EXPECT_DOUBLE_EQ(*dataset.mean("x"), 4);
  EXPECT_DOUBLE_EQ(*dataset.std("x"), std::sqrt(26.0 / 3));
  EXPECT_DOUBLE_EQ(*dataset.std("x", 0), std::sqrt(26.0 / 4));
  EXPECT_EQ(dataset.unique("name")->ToString(),
            arrow::json::ArrayFromJSONString(arrow::utf8(), R"(["c", "a", null])").ValueOrDie()->ToString());
  const Dataset nothing = dataset.limit(0);
  EXPECT_FALSE(nothing.sum("x")->is_valid);
  EXPECT_FALSE(nothing.mean("x"));
  EXPECT_FALSE(dataset.limit(1).std("x"));
  EXPECT_EQ(nothing.unique("x")->length(), 0);
  EXPECT_THAT(message_of([&] { dataset.mean("name"); }), HasSubstr("mean(\"name\")"));
  const Dataset large = from_arrow({numbers_of({1}), numbers_of({std::numeric_limits<int64_t>::max()})});
  EXPECT_THAT(message_of([&] { large.sum("row"); }), HasSubstr("overflow"));
  EXPECT_EQ(dataset.take_all()->num_rows(), 5);
  EXPECT_THAT(message_of([&] { dataset.take_all(4); }), HasSubstr("more than 4 rows"));
  EXPECT_EQ(dataset.take_batch(4)->num_rows(), 4);
  EXPECT_THAT(message_of([&] { nothing.take_batch(); }), HasSubstr("no rows"));
  EXPECT_EQ(dataset.take(0)->num_rows(), 0);
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
  EXPECT_THAT(rows_of(numbers.train_test_split(4).second), ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(rows_of(numbers.split_proportionately({0.5, 0.2})[1]), ElementsAre(5, 6));
  EXPECT_THAT(rows_of(numbers.split_proportionately({0.7, 0.1, 0.1})[2]), ElementsAre(8));
  EXPECT_THAT(message_of([] { range(5).split_proportionately({0.1, 0.1}); }), HasSubstr("5 rows are too few"));
  EXPECT_THAT(message_of([] { range(1).train_test_split(0.5); }), HasSubstr("test_size is 1 rows; allowed: 1 to 0"));
  EXPECT_THAT(message_of([&] { numbers.split(0); }), HasSubstr("n is 0; allowed: a whole number from 1"));
}

TEST(Dataset, ASampleHasTheSameRowsWhateverStandsBehindIt) {
  const Dataset numbers = range(1000).repartition(7);
  const Dataset sample = numbers.random_sample(0.5, {.seed = 1});
  const std::vector<int64_t> rows = rows_of(sample);
  EXPECT_GT(rows.size(), 400u);
  EXPECT_LT(rows.size(), 600u);
  EXPECT_EQ(sample.count(), std::ssize(rows));  // without reading
  const std::vector<int64_t> first(rows.begin(), rows.begin() + 100);
  EXPECT_EQ(rows_of(sample.limit(100)), first);
  EXPECT_EQ(rows_of(sample.repartition(3)), rows);
  EXPECT_EQ(sample.split(2)[1].count() + sample.split(2)[0].count(), std::ssize(rows));
  const auto [train, test] = numbers.random_shuffle({.seed = 4}).streaming_train_test_split(0.25, {.seed = 3});
  std::vector<int64_t> all = rows_of(train);
  for (const int64_t row : rows_of(test.random_shuffle({.seed = 9}))) all.push_back(row);
  std::ranges::sort(all);
  EXPECT_EQ(all, rows_of(range(1000)));
  EXPECT_EQ(numbers.random_sample(0).count(), 0);
  EXPECT_EQ(rows_of(numbers.random_sample(1)), rows_of(range(1000)));
  EXPECT_NE(rows_of(numbers.random_sample(0.5)), rows_of(numbers.random_sample(0.5)));
  EXPECT_THAT(message_of([&] { numbers.random_sample(1.5); }), HasSubstr("fraction is 1.5; allowed: 0 to 1"));
  EXPECT_THAT(message_of([&] { numbers.streaming_train_test_split(0.5, {.split_type = "hash"}); }),
              HasSubstr("split_type is 'hash' and hash_column is not given"));
}

TEST(Dataset, FunctionsOfTheProgramAreFoundByName) {
  const Dataset made = range(5).map_batches(add_hundred, {.batch_size = 2, .udf_modifying_row_count = false});
  EXPECT_EQ(made.count(), 5);
  EXPECT_THAT(rows_of(made), ElementsAre(100, 101, 102, 103, 104));
  EXPECT_THAT(rows_of(range(5).map_batches("first_row", {.batch_size = 2})), ElementsAre(0, 2, 4));
  EXPECT_THAT(rows_of(range(7).repartition(3).map_batches("first_row", {.batch_size = 3})), ElementsAre(0, 3, 6));
  EXPECT_THAT(made.explain(), HasSubstr("MapBatches(add_hundred)"));
  EXPECT_THAT(made.stats(), HasSubstr("MapBatches(add_hundred): 1 blocks\n* Rows: 5 in, 5 out, 5 in a block"));
  const auto travelled = decode_plans(arrow::Buffer::FromString(encode_plans({{"x", made.plan()}}).ValueOrDie()));
  EXPECT_EQ(rows_of(Dataset(travelled.ValueOrDie().at("x"))), rows_of(made));

  EXPECT_THAT(message_of([] { range(1).map_batches(unregistered); }), HasSubstr("PACELINE_MAP_BATCHES(your_function)"));
  EXPECT_THAT(message_of([] { range(1).map_batches("nothing"); }),
              HasSubstr("registered: add_hundred, fail_late, first_row"));
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

TEST(Dataset, SourcesOfAUsersOwn) {
  const Dataset read = read_datasource(threes, {{"rows", 9}});
  EXPECT_EQ(read.count(), 9);
  EXPECT_EQ(read.explain(), "ReadDatasource(threes)\n");
  EXPECT_EQ(rows_of(read), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  const auto bytes = encode_plans({{"train", read.random_shuffle({.seed = 3}).plan()}}).ValueOrDie();
  const auto travelled = decode_plans(arrow::Buffer::FromString(bytes)).ValueOrDie();
  EXPECT_EQ(rows_of(Dataset(travelled.at("train"))), rows_of(read.random_shuffle({.seed = 3})));
  const Dataset uncounted = read_datasource(threes, {{"rows", 6}, {"counts", false}});
  EXPECT_EQ(uncounted.count(), 6);
  EXPECT_EQ(rows_of(uncounted), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_THAT(message_of([] { rows_of(read_datasource(threes, {{"rows", 6}, {"fails_at", 3}})); }),
              HasSubstr("task 1 of the datasource threes: no more"));
  EXPECT_THAT(message_of([] { (void)read_datasource(threes).count(); }), HasSubstr("the datasource threes: "));
  EXPECT_THAT(message_of([] { (void)read_datasource(unregistered_source); }),
              HasSubstr("PACELINE_DATASOURCE(your_function)"));
}

TEST(Dataset, SinksOfAUsersOwn) {
  Notes notes;
  read_datasource(threes, {{"rows", 6}}).write_datasink(notes);
  EXPECT_EQ(notes.text, "row+3+3 done");
  Notes failed;
  EXPECT_THAT(message_of([&] { read_datasource(threes, {{"rows", 6}, {"fails_at", 3}}).write_datasink(failed); }),
              HasSubstr("no more"));
  EXPECT_THAT(failed.text, HasSubstr(" failed"));
}

TEST(Dataset, FoldersOfParquetFilesBecomeColumns) {
  const testing::TemporaryFolder folder;
  range(2).write_parquet(folder.path() + "/year=2024");
  EXPECT_THAT(read_parquet(folder.path()).columns(), ElementsAre("id", "year"));
  EXPECT_THAT(read_parquet(folder.path(), {.partitioning = ""}).columns(), ElementsAre("id"));
}

TEST(Dataset, WritesToFileSystemsWhoseKeysAreShownNowhere) {
  const auto memory = std::make_shared<arrow::fs::internal::MockFileSystem>(arrow::fs::TimePoint());
  storage::add_file_system("idOfDatasetTest", memory);
  const std::string place = storage::custom_location("idOfDatasetTest", "mock", "folder/below").with_credentials();
  range(10).repartition(3).write_parquet(place);
  EXPECT_EQ(memory->AllFiles().size(), 3u);
  const Dataset read = read_parquet(place);
  EXPECT_EQ(read.count(), 10);
  EXPECT_EQ(read.input_files().size(), 1u);
  EXPECT_THAT(read.input_files().front(), Not(HasSubstr("idOfDatasetTest")));
  EXPECT_THAT(message_of([&] { range(9).repartition(3).map_batches("fail_late").write_parquet(place); }),
              HasSubstr("late"));
  EXPECT_EQ(memory->AllFiles().size(), 3u);
}

TEST(Dataset, WhatCannotBeWrittenIsToldBefore) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "there", "content");
  EXPECT_THAT(message_of([&] { range(1).write_parquet(folder / "there"); }),
              HasSubstr("this is a file; wanted: a folder"));
  EXPECT_THAT(message_of([&] { range_tensor(2, {3}).write_csv(folder / "csv"); }),
              HasSubstr("CSV files cannot hold these columns: data ("));
  EXPECT_FALSE(std::filesystem::exists(folder / "csv"));
}

TEST(Dataset, WritesOtherFormats) {
  const testing::TemporaryFolder folder;
  const auto list = arrow::fixed_size_list(arrow::float32(), 2);
  const auto columns = arrow::schema({arrow::field("x", arrow::int8()), arrow::field("name", arrow::utf8()),
                                      arrow::field("pair", list), arrow::field("is_odd", arrow::boolean())});
  const auto rows = arrow::json::ArrayFromJSONString(arrow::struct_(columns->fields()),
                                                     R"([[1, "one", [0.5, 1], true], [2, null, [2, 3], false],
                                                         [3, "three", [4, 5], true]])")
                        .ValueOrDie();
  const Dataset dataset = from_arrow({arrow::RecordBatch::FromStructArray(rows).ValueOrDie()}).repartition(2);
  dataset.write_json(folder.path() + "/json");
  const auto read = read_json(folder.path() + "/json").take();
  EXPECT_EQ(read->num_rows(), 3);
  EXPECT_EQ(read->GetColumnByName("name")->null_count(), 1);
  EXPECT_EQ(read->GetColumnByName("pair")->GetScalar(2).ValueOrDie()->ToString(), "list<item: double>[4, 5]");
  dataset.drop_columns({"pair"}).write_csv(folder.path() + "/csv");
  EXPECT_THAT(rows_of(read_csv(folder.path() + "/csv")), ElementsAre(1, 2, 3));
  for (const std::string name : {"x", "pair", "is_odd"}) {
    dataset.write_numpy(folder.path() + "/" + name, name);
    const auto again = read_numpy(folder.path() + "/" + name).take()->column(0);
    EXPECT_TRUE(again->Equals(dataset.take()->GetColumnByName(name))) << again->ToString();
  }
  EXPECT_THAT(message_of([&] { dataset.write_numpy(folder.path() + "/name", "name"); }),
              HasSubstr("the column has string"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() + "/name"));
}

TEST(Dataset, AWriteThatFailsLeavesNothing) {
  const testing::TemporaryFolder folder;
  range(2).write_parquet(folder.path());
  EXPECT_THAT(message_of([&] { range(9).repartition(3).map_batches("fail_late").write_parquet(folder.path()); }),
              HasSubstr("late"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  std::ofstream(folder.path() + "/file") << "no folder";
  EXPECT_THROW(range(2).write_parquet(folder.path() + "/file/below"), StorageError);
  EXPECT_THAT(message_of([] { range(2).write_parquet("ftp://somewhere/x"); }),
              HasSubstr("write_parquet(\"ftp://somewhere/x\")"));
}

TEST(Dataset, ReadersTakeOptions) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder.path() + "/a.csv") << "1;2\n3;4\n";
  const Dataset rows =
      read_csv(folder.path() + "/a.csv",
               {.delimiter = ';', .column_names = {"x", "y"}, .files = {.columns = std::vector<std::string>{"y"}}});
  EXPECT_THAT(rows_of(rows), ElementsAre(2, 4));
  std::ofstream(folder.path() + "/bad.csv") << "x,y\n1,2\n3\n5,6\n";
  const std::string quarantine = folder.path() + "/quarantine.jsonl";
  const auto types = arrow::schema({arrow::field("y", arrow::float32())});
  const Dataset forgiven = read_csv(folder.path() + "/bad.csv",
                                    {.files = {.on_error = "skip", .quarantine = quarantine, .column_types = types}});
  EXPECT_THAT(rows_of(forgiven), ElementsAre(1, 5));
  EXPECT_EQ(*forgiven.schema()->field(1)->type(), *arrow::float32());
  EXPECT_GT(std::filesystem::file_size(quarantine), 0u);
  EXPECT_THAT(rows_of(range(9).repartition(3).map_batches("fail_late", {.on_error = "skip"})),
              ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(message_of([] { read_csv("a", {.files = {.on_error = "drop"}}); }), HasSubstr("on_error is \"drop\""));
  EXPECT_THAT(message_of([] { read_parquet("a", {.on_error = "skip"}); }), HasSubstr("takes no on_error"));
  EXPECT_THAT(message_of([] { read_text("a", {.quarantine = "b"}); }), HasSubstr("a quarantine is for"));
  EXPECT_THAT(rows_of(from_items(std::vector<int64_t>{3, 1})), ElementsAre(3, 1));
  EXPECT_EQ(from_items(std::vector<std::string>{"a"}).columns(), std::vector<std::string>{"item"});
  EXPECT_EQ(range_tensor(3, {2, 2}).take()->column(0)->type()->ToString(),
            "fixed_size_list<item: fixed_size_list<item: int64>[2]>[2]");
  EXPECT_THAT(message_of([] { read_parquet({}); }), HasSubstr("read_parquet() was given no path"));
  EXPECT_THAT(message_of([] { read_text("a", {.shuffle = "rows"}); }), HasSubstr("allowed: \"files\""));
}

}  // namespace
}  // namespace paceline::data
