#include "paceline/train/data/tensors.h"

#include <arrow/array.h>
#include <arrow/json/from_string.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace paceline {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<arrow::Array> column(const std::shared_ptr<arrow::DataType>& type, const std::string& json) {
  return arrow::json::ArrayFromJSONString(type, json).ValueOrDie();
}

TEST(Tensors, NumbersAreNotCopiedAndOutliveTheColumn) {
  auto numbers = column(arrow::float32(), "[1, 2, 3, 4]")->Slice(1, 2);
  const void* bytes = numbers->data()->buffers[1]->data() + sizeof(float);
  const torch::Tensor tensor = to_tensor(numbers).ValueOrDie();
  EXPECT_EQ(tensor.data_ptr(), bytes);
  numbers.reset();
  EXPECT_TRUE(torch::equal(tensor, torch::tensor({2.0F, 3.0F})));
}

TEST(Tensors, ListsOfOneLengthAreDimensions) {
  const auto matrix = arrow::fixed_size_list(arrow::fixed_size_list(arrow::int16(), 3), 2);
  const auto rows = column(matrix, "[[[1,2,3],[4,5,6]], [[7,8,9],[10,11,12]], [[0,0,0],[0,0,1]]]")->Slice(1, 2);
  const torch::Tensor tensor = to_tensor(rows).ValueOrDie();
  EXPECT_EQ(tensor.sizes(), (std::vector<int64_t>{2, 2, 3}));
  EXPECT_EQ(tensor[0][1][2].item<int>(), 12);
  EXPECT_EQ(tensor[1][1][2].item<int>(), 1);
  const torch::Tensor lists =
      to_tensor(column(arrow::list(arrow::int64()), "[[1, 2], [3, 4], [5, 6]]")->Slice(1)).ValueOrDie();
  EXPECT_TRUE(torch::equal(lists, torch::tensor({{3, 4}, {5, 6}}, torch::kInt64)));
}

TEST(Tensors, NullsAreNaN) {
  const torch::Tensor reals = to_tensor(column(arrow::float32(), "[1, null]")).ValueOrDie();
  EXPECT_EQ(reals.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(reals[1].isnan().item<bool>());
  const torch::Tensor integers = to_tensor(column(arrow::int32(), "[null, 2]")).ValueOrDie();
  EXPECT_EQ(integers.scalar_type(), torch::kFloat64);
  EXPECT_TRUE(integers[0].isnan().item<bool>());
  EXPECT_EQ(integers[1].item<double>(), 2);
}

TEST(Tensors, TruthValuesAndNothing) {
  EXPECT_TRUE(
      torch::equal(to_tensor(column(arrow::boolean(), "[true, false]")).ValueOrDie(), torch::tensor({true, false})));
  EXPECT_EQ(to_tensor(column(arrow::fixed_size_list(arrow::float32(), 4), "[]"))->sizes(),
            (std::vector<int64_t>{0, 4}));
}

TEST(Tensors, WhatCannotBeSaysWhatToDo) {
  EXPECT_THAT(to_tensor(column(arrow::utf8(), R"(["a"])")).status().message(), HasSubstr("holds string"));
  EXPECT_THAT(to_tensor(column(arrow::list(arrow::int64()), "[[1], [2, 3]]")).status().message(),
              HasSubstr("different lengths (1 and 2)"));
  EXPECT_THAT(to_tensor(column(arrow::boolean(), "[null]")).status().message(), HasSubstr("null"));
}

}  // namespace
}  // namespace paceline
