#include "paceline/data/source/plain_tensors.h"

#include <arrow/array.h>
#include <arrow/extension/fixed_shape_tensor.h>
#include <arrow/json/from_string.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/data/source/source_testing_internal.h"

namespace paceline::data {
namespace {

std::shared_ptr<const Source> of(const std::shared_ptr<arrow::Array>& column) {
  const auto schema = arrow::schema({arrow::field("t", column->type())});
  return memory_source(schema, {arrow::RecordBatch::Make(schema, column->length(), {column})}).ValueOrDie();
}

std::shared_ptr<arrow::Array> lists(const std::shared_ptr<arrow::DataType>& type, const std::string& json) {
  return arrow::json::ArrayFromJSONString(type, json).ValueOrDie();
}

TEST(PlainTensorsTest, TensorsBecomeNestedListsAlsoWhereTheyAreSlicesOrNull) {
  const auto values =
      lists(arrow::fixed_size_list(arrow::int32(), 4), "[[0, 0, 0, 0], [1, 2, 3, 4], null, [5, 6, 7, 8]]");
  const auto type = arrow::extension::fixed_shape_tensor(arrow::int32(), {2, 2});
  const auto tensors = arrow::ExtensionType::WrapArray(type, values)->Slice(1);
  const auto source = with_plain_tensors(of(tensors)).ValueOrDie();
  const auto wanted = lists(arrow::fixed_size_list(arrow::fixed_size_list(arrow::int32(), 2), 2),
                            "[[[1, 2], [3, 4]], null, [[5, 6], [7, 8]]]");
  const auto table = all_rows(*source);
  EXPECT_TRUE(table->column(0)->chunk(0)->Equals(wanted)) << table->ToString();
}

TEST(PlainTensorsTest, OtherColumnsStayAsTheyAre) {
  const auto source = of(lists(arrow::fixed_size_list(arrow::int32(), 2), "[[1, 2]]"));
  EXPECT_EQ(with_plain_tensors(source).ValueOrDie(), source);
}

TEST(PlainTensorsTest, PermutedDimensionsAreRefused) {
  const auto type = arrow::extension::fixed_shape_tensor(arrow::int32(), {1, 2}, {1, 0});
  const auto tensors =
      arrow::ExtensionType::WrapArray(type, lists(arrow::fixed_size_list(arrow::int32(), 2), "[[1, 2]]"));
  const auto status = with_plain_tensors(of(tensors)).status();
  EXPECT_TRUE(status.IsInvalid());
  EXPECT_THAT(status.message(), ::testing::HasSubstr("column 't' are permuted"));
}

}  // namespace
}  // namespace paceline::data
