// Datasets in workers that die.
#include <arrow/array.h>
#include <arrow/table.h>

#include "paceline/core/json.h"
#include "paceline/data/dataset/read_api.h"
#include "tests/robustness/robustness_fixture.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

// Behind those of the four steps that were reported: the fifth step's come again.
TEST_F(Robustness, AfterADeathAnotherNumberOfWorkersGetsTheRowsThatRemain) {
  auto driver = start("dataset_rows");
  EXPECT_EQ(driver.wait(), 1) << driver.output();
  auto again = start("dataset_rows", {{"WORKERS", "1"}});
  EXPECT_EQ(again.wait(), 0) << again.output();
  const auto order = data::range(30).random_shuffle({.seed = 5}).take(30)->column(0);
  Json remaining = Json::array();
  for (int64_t row = 24; row < 30; ++row) {
    remaining.push_back(static_cast<const arrow::Int64Array&>(*order->chunk(0)).Value(row));
  }
  EXPECT_THAT(again.output(), HasSubstr("return value " + remaining.dump()));
  expect_clean(again);
}

}  // namespace
}  // namespace paceline
