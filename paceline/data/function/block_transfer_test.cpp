#include "paceline/data/function/block_transfer.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/json/from_string.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "paceline/data/testing_internal.h"

namespace paceline::data {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<SharedRegion> region(SharedRegions& regions) {
  return regions.take(1).ValueOrDie();
}

std::string schema_of(const std::vector<std::shared_ptr<arrow::Field>>& fields) {
  return arrow::ipc::SerializeSchema(*arrow::schema(fields)).ValueOrDie()->ToString();
}

std::shared_ptr<arrow::RecordBatch> read_back(const std::shared_ptr<SharedRegion>& region, int64_t bytes) {
  auto stream = std::make_shared<arrow::io::BufferReader>(part_of(region, 0, bytes).ValueOrDie());
  return arrow::ipc::RecordBatchStreamReader::Open(stream).ValueOrDie()->Next().ValueOrDie();
}

TEST(BlockTransfer, WritesBlocksOfAllTypesAndTheirSlices) {
  const auto dictionary = arrow::dictionary(arrow::int8(), arrow::utf8());
  const auto list = arrow::fixed_size_list(arrow::float32(), 2);
  const auto columns = arrow::schema({arrow::field("dictionary", dictionary), arrow::field("list", list)});
  const auto block = arrow::RecordBatch::Make(
      columns, 3,
      {arrow::json::DictArrayFromJSONString(dictionary, "[0, null, 1]", R"(["a", "b"])").ValueOrDie(),
       arrow::json::ArrayFromJSONString(list, "[[1, 2], [3, 4], [5, 6]]").ValueOrDie()});
  SharedRegions regions(1);
  const auto whole = region(regions);
  EXPECT_TRUE(read_back(whole, write_block(*block, *whole).ValueOrDie())->Equals(*block));
  const auto slice = block->Slice(1, 2);
  EXPECT_TRUE(read_back(whole, write_block(*slice, *whole).ValueOrDie())->Equals(*slice));
}

TEST(BlockTransfer, ColumnsOfTheBlockAreNotCopied) {
  const auto block = numbers_of({1, 2, 3});
  const FunctionMade made{.rows = 3, .columns = {{{"input", 0}}}};
  SharedRegions regions(1);
  const auto read =
      read_made(made, schema_of({arrow::field("x", arrow::int64())}), *block, region(regions)).ValueOrDie();
  EXPECT_EQ(read->column(0)->data()->buffers[1], block->column(0)->data()->buffers[1]);
  EXPECT_EQ(read->schema()->field(0)->name(), "x");
}

TEST(BlockTransfer, FlatValuesAreReadWhereTheyLie) {
  SharedRegions regions(1);
  auto output = region(regions);
  const float values[] = {1, 2, 3, 4};
  std::memcpy(output->data() + 64, values, sizeof values);
  const FunctionMade made{.rows = 2, .columns = {{{"flat", 64}}}, .output_bytes = 64 + sizeof values};
  const auto type = arrow::fixed_size_list(arrow::float32(), 2);
  const auto read = read_made(made, schema_of({arrow::field("x", type)}), *numbers_of({}), output).ValueOrDie();
  EXPECT_EQ(read->column(0)->ToString(),
            arrow::json::ArrayFromJSONString(type, "[[1, 2], [3, 4]]").ValueOrDie()->ToString());
  const auto& list = static_cast<const arrow::FixedSizeListArray&>(*read->column(0));
  EXPECT_EQ(list.values()->data()->buffers[1]->data(), output->data() + 64);
}

TEST(BlockTransfer, ARegionIsUsedAgainOnceItsArraysAreGone) {
  SharedRegions regions(1);
  auto output = region(regions);
  const int64_t id = output->id();
  const FunctionMade made{.rows = 1, .columns = {{{"flat", 0}}}, .output_bytes = 8};
  auto read = read_made(made, schema_of({arrow::field("x", arrow::int64())}), *numbers_of({}), output).ValueOrDie();
  output.reset();
  EXPECT_NE(region(regions)->id(), id);
  read.reset();
  EXPECT_TRUE(regions.has(id));
  const auto first = region(regions);
  const auto second = region(regions);
  EXPECT_TRUE(first->id() == id || second->id() == id);
}

TEST(BlockTransfer, AnswersThatDoNotFitAreErrors) {
  SharedRegions regions(1);
  const auto output = region(regions);
  const auto block = numbers_of({1});
  const auto error_of = [&](const Json& column, int64_t rows) {
    const FunctionMade made{.rows = rows, .columns = {column}};
    return read_made(made, schema_of({arrow::field("x", arrow::int64())}), *block, output).status().message();
  };
  EXPECT_THAT(error_of({{"input", 1}}, 1), HasSubstr("no column 1"));
  EXPECT_THAT(error_of({{"input", 0}}, 2), HasSubstr("has 1 rows, not 2"));
  EXPECT_THAT(error_of({{"flat", 1 << 20}}, 1), HasSubstr("has no 8 bytes"));
  EXPECT_THAT(error_of({{"flat", 0}}, int64_t{1} << 62), HasSubstr("no room"));
  EXPECT_THAT(error_of({{"what", 0}}, 1), HasSubstr("stream"));
}

}  // namespace
}  // namespace paceline::data
