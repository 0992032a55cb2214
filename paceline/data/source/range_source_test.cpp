#include "paceline/data/source/range_source.h"

#include <arrow/json/from_string.h>
#include <gmock/gmock.h>

#include "paceline/data/source/source_testing_internal.h"

namespace paceline::data {
namespace {

void expect_column(const Source& source, const std::string& name, const std::shared_ptr<arrow::DataType>& type,
                   const std::string& json) {
  const auto table = all_rows(source);
  EXPECT_EQ(table->field(0)->name(), name);
  const auto wanted = arrow::json::ArrayFromJSONString(type, json).ValueOrDie();
  EXPECT_TRUE(table->column(0)->Equals(arrow::ChunkedArray(wanted))) << table->ToString();
}

TEST(RangeSourceTest, RowsAreTheirNumbers) {
  const auto source = range_source(5, std::nullopt, {.chunk_bytes = 16}).ValueOrDie();
  EXPECT_EQ(source->chunks().size(), 3u);
  expect_column(*source, "id", arrow::int64(), "[0, 1, 2, 3, 4]");
  expect_column(**range_source(1), "id", arrow::int64(), "[0]");
  EXPECT_TRUE(range_source(0).ValueOrDie()->chunks().empty());
}

TEST(RangeSourceTest, TensorsAreFilledWithTheirNumbers) {
  const auto type = arrow::fixed_size_list(arrow::fixed_size_list(arrow::int64(), 1), 2);
  expect_column(**range_source(3, {{2, 1}}, {.chunk_bytes = 1}), "data", type, "[[[0], [0]], [[1], [1]], [[2], [2]]]");
  expect_column(**range_source(2, std::vector<int64_t>{}), "data", arrow::int64(), "[0, 1]");
  expect_column(**range_source(2, {{0}}), "data", arrow::fixed_size_list(arrow::int64(), 0), "[[], []]");
}

TEST(RangeSourceTest, WhatCannotBeIsRefused) {
  EXPECT_FALSE(range_source(-1).ok());
  EXPECT_FALSE(range_source(1, {{2, -1}}).ok());
  EXPECT_FALSE(range_source(1, {{int64_t{1} << 40}}).ok());
  EXPECT_FALSE(range_source(1, {{1 << 30, 1 << 30, 1 << 30}}).ok());
  EXPECT_FALSE(range_source(1, std::nullopt, {.chunk_bytes = 0}).ok());
  EXPECT_FALSE(range_source(std::numeric_limits<int64_t>::max()).ok());
}

TEST(RangeSourceTest, TheFingerprintIsOfRowsAndShape) {
  EXPECT_EQ(range_source(5).ValueOrDie()->fingerprint(), range_source(5).ValueOrDie()->fingerprint());
  EXPECT_NE(range_source(5).ValueOrDie()->fingerprint(), range_source(6).ValueOrDie()->fingerprint());
  EXPECT_NE(range_source(5, {{2}}).ValueOrDie()->fingerprint(), range_source(5, {{3}}).ValueOrDie()->fingerprint());
}

}  // namespace
}  // namespace paceline::data
