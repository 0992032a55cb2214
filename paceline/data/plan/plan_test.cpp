#include "paceline/data/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/data/plan/codec.h"
#include "paceline/data/testing_internal.h"

namespace paceline::data {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Plan> rows(std::vector<int64_t> values) {
  return std::make_shared<Plan>(Plan{.kind = "rows", .rows = {numbers_of(values)}});
}

std::shared_ptr<const Plan> step(const std::string& kind, Json options,
                                 std::vector<std::shared_ptr<const Plan>> inputs) {
  return std::make_shared<Plan>(Plan{.kind = kind, .options = std::move(options), .inputs = std::move(inputs)});
}

std::vector<int64_t> all_of(const Plan& plan) {
  const OpenPlan open = data::open(plan).ValueOrDie();
  std::vector<int64_t> all;
  for (size_t chunk = 0; chunk < open.source->chunks().size(); ++chunk) {
    for (const int64_t value : values_of(**open.source->read(static_cast<int64_t>(chunk), 0))) all.push_back(value);
  }
  return all;
}

TEST(Plan, PutsItsStepsTogether) {
  const auto plan =
      step("range", {{"first", 1}, {"rows", 4}}, {step("union", Json::object(), {rows({1, 2, 3}), rows({4, 5, 6})})});
  EXPECT_EQ(all_of(*plan), (std::vector<int64_t>{2, 3, 4, 5}));
  EXPECT_EQ(data::open(*step("repartition", {{"blocks", 2}}, {plan}))->source->chunks().size(), 2u);
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_LT(data::open(*step("repartition", {{"blocks", most}}, {plan}))->source->chunks().size(), 1000u);
  EXPECT_TRUE(data::open(*step("whole_batches", {{"rows", most}}, {plan})).ok());
  EXPECT_FALSE(data::open(*step("repartition", {{"blocks", 0}}, {plan})).ok());
  EXPECT_FALSE(data::open(*step("range", {{"first", 3}, {"rows", most}}, {plan})).ok());
  EXPECT_EQ(explain(*plan), "Rows\nRows\nUnion\nSlice(first=1, rows=4)\n");
}

TEST(Plan, AShuffleChangesTheOrderAlone) {
  const auto shuffled = step("shuffle", {{"what", "rows"}, {"seed", 5}}, {rows({1, 2, 3, 4, 5, 6, 7, 8})});
  const OpenPlan open = data::open(*shuffled).ValueOrDie();
  EXPECT_EQ(open.order.shuffle, Shuffle::rows);
  EXPECT_EQ(open.order.seed, 5);
  EXPECT_EQ(all_of(*shuffled), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  // What takes the first rows of a shuffled set takes them of its order.
  const std::vector<int64_t> first = all_of(*step("range", {{"rows", 3}}, {shuffled}));
  EXPECT_EQ(first.size(), 3u);
  EXPECT_NE(first, (std::vector<int64_t>{1, 2, 3}));
}

TEST(Plan, ASourceOfTheProgramsOwnIsReadAsAnyOther) {
  auto own = std::make_shared<Plan>(Plan{.kind = "source", .options = {{"name", "Mine"}}});
  EXPECT_THAT(data::open(*own).status().message(), HasSubstr("has no source"));
  own->source = data::open(*rows({1, 2, 3})).ValueOrDie().source;
  EXPECT_EQ(all_of(*step("range", {{"first", 1}}, {own})), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(explain(*own), "ReadMine\n");
}

TEST(Plan, WrongStepsAreErrors) {
  EXPECT_THAT(data::open(*step("fly", Json::object(), {rows({1})})).status().message(), HasSubstr("no step 'fly'"));
  EXPECT_THAT(data::open(*step("shuffle", {{"what", "rows"}}, {rows({1}), rows({2})})).status().message(),
              HasSubstr("'shuffle' has 2 inputs; wanted: one"));
  EXPECT_THAT(data::open(*step("select_columns", Json::object(), {rows({1})})).status().message(),
              HasSubstr("the options of step 'select_columns' are {}"));
}

// More would overflow the stack: in open(), or where the plan ends.
TEST(Plan, LongChainsAreReadOrRefused) {
  const auto chain = [](int64_t steps) {
    std::shared_ptr<const Plan> plan = rows({1});
    for (int64_t i = 0; i < steps; i += 2) {
      plan = step("union", Json::object(), {step("select_columns", {{"columns", {"row"}}}, {plan}), rows({1})});
    }
    return plan;
  };
  EXPECT_EQ(all_of(*chain(1000)).size(), 501u);
  const auto too_long = chain(5000);
  EXPECT_THAT(data::open(*too_long).status().message(), HasSubstr("more than 2000 steps"));
  EXPECT_THAT(explain(*too_long), HasSubstr("more than 2000 steps"));
  EXPECT_THAT(encode_plans({{"train", *too_long}}).status().message(), HasSubstr("more than 2000 steps"));
  chain(500'000);
}

}  // namespace
}  // namespace paceline::data
