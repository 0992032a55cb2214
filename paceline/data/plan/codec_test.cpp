#include "paceline/data/plan/codec.h"

#include <arrow/record_batch.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/data/testing_internal.h"

namespace paceline::data {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<arrow::Buffer> encoded(const std::map<std::string, Plan>& plans) {
  return arrow::Buffer::FromString(encode_plans(plans).ValueOrDie());
}

std::vector<int64_t> read_all(const Plan& plan) {
  const OpenPlan open = data::open(plan).ValueOrDie();
  std::vector<int64_t> all;
  for (size_t chunk = 0; chunk < open.source->chunks().size(); ++chunk) {
    for (const int64_t value : values_of(**open.source->read(static_cast<int64_t>(chunk), 0))) all.push_back(value);
  }
  return all;
}

TEST(PlanCodec, PlansAreWhatTheyWere) {
  const auto rows = std::make_shared<Plan>(Plan{.kind = "rows", .rows = {numbers_of({1, 2, 3}), numbers_of({4})}});
  const auto twice = std::make_shared<Plan>(Plan{.kind = "union", .inputs = {rows, rows}});
  const Plan some{.kind = "range", .options = {{"first", 2}, {"rows", 4}}, .inputs = {twice}};
  const auto bytes = encoded({{"some", some}, {"all", *twice}});
  const auto plans = decode_plans(bytes).ValueOrDie();
  EXPECT_EQ(read_all(plans.at("some")), (std::vector<int64_t>{3, 4, 1, 2}));
  EXPECT_EQ(explain(plans.at("all")), explain(*twice));
  // Positions of one are those of the other.
  EXPECT_EQ(open(plans.at("some"))->source->fingerprint(), open(some)->source->fingerprint());
  // What is there several times is there once.
  const auto& inputs = plans.at("all").inputs;
  EXPECT_EQ(inputs[0], inputs[1]);
  // Rows are not copied.
  const auto* values = inputs[0]->rows[0]->column_data(0)->buffers[1]->data();
  EXPECT_TRUE(values >= bytes->data() && values < bytes->data() + bytes->size());
}

TEST(PlanCodec, WhatIsNoPlanIsAnError) {
  EXPECT_FALSE(decode_plans(arrow::Buffer::FromString("")).ok());
  EXPECT_FALSE(decode_plans(arrow::Buffer::FromString("[1]\n")).ok());
  std::string bytes = encode_plans({{"rows", {.kind = "rows", .rows = {numbers_of({1, 2, 3})}}}}).ValueOrDie();
  bytes.resize(bytes.size() / 2);
  EXPECT_FALSE(decode_plans(arrow::Buffer::FromString(bytes)).ok());
  EXPECT_THAT(decode_plans(arrow::Buffer::FromString(R"({"steps":[{"kind":"union","inputs":[0]}]})"
                                                     "\n"))
                  .status()
                  .message(),
              HasSubstr("names step 0 of 0"));
}

// Of a user's, whose name nobody knows.
struct Unnamed : Operator {
  std::string name() const override { return "Map(f)"; }
  bool keeps_rows() const override { return true; }
  uint64_t fingerprint() const override { return 0; }
  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const std::shared_ptr<arrow::Schema>& input) const override {
    return input;
  }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply(const std::shared_ptr<arrow::RecordBatch>& block,
                                                           uint64_t) const override {
    return block;
  }
};

TEST(PlanCodec, AFunctionWithoutANameStays) {
  const Plan plan{.kind = "function", .function = std::make_shared<Unnamed>()};
  EXPECT_THAT(encode_plans({{"train", plan}}).status().message(),
              HasSubstr("the dataset 'train': the step Map(f) cannot be sent to another process"));
}

}  // namespace
}  // namespace paceline::data
