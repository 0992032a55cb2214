#include "paceline/data/dataset/aggregate.h"

#include <arrow/array.h>
#include <arrow/compute/expression.h>
#include <arrow/json/from_string.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/table.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "paceline/core/error.h"
#include "paceline/data/dataset/dataset.h"
#include "paceline/data/dataset/read_api.h"
#include "paceline/data/testing_internal.h"

namespace paceline::data {
namespace {

namespace compute = arrow::compute;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Dataset dataset_of(const arrow::FieldVector& fields, const std::string& json, int64_t blocks = 1) {
  const auto rows = arrow::json::ArrayFromJSONString(arrow::struct_(fields), json).ValueOrDie();
  const Dataset dataset = from_arrow({arrow::RecordBatch::FromStructArray(rows).ValueOrDie()});
  return blocks == 1 ? dataset : dataset.repartition(blocks);
}

std::vector<std::string> texts_of(const AggregateResults& results) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : results) texts.push_back(name + " = " + value->ToString());
  return texts;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

const arrow::FieldVector kFields = {arrow::field("x", arrow::int32()), arrow::field("y", arrow::float64()),
                                    arrow::field("name", arrow::utf8())};
constexpr const char* kRows = R"([[3, 0.5, "c"], [1, -2, "a"], [null, null, "c"], [8, 0.5, null], [-4, 1, "a"]])";

TEST(Aggregate, SeveralInOnePassForEveryCutOfTheRows) {
  for (const int64_t blocks : {1, 2, 3, 5}) {
    const Dataset dataset = dataset_of(kFields, kRows, blocks);
    const AggregateResults results =
        dataset.aggregate({Count(), Count("x"), Count("x", true), Sum("x"), Min("x"), Max("x"), AbsMax("y"), Mean("x"),
                           Max("name"), Unique("name"), ValueCounter("y")});
    EXPECT_THAT(
        texts_of(results),
        ElementsAre("abs_max(y) = 2", "count() = 5", "count(x) = 5", "count(x)_2 = 4", "max(name) = c", "max(x) = 8",
                    "mean(x) = 2", "min(x) = -4", "sum(x) = 8", "unique(name) = list<item: string>[c, a, null]",
                    "value_counter(y) = {values:list<item: double> = list<item: double>[0.5, -2, null, 1], "
                    "counts:list<item: int64> = list<item: int64>[2, 1, 1, 1]}"))
        << blocks;
    // Off their mean 2, the values of x are 1, -1, 6, -6: squares 74.
    EXPECT_DOUBLE_EQ(*dataset.std("x"), std::sqrt(74.0 / 3));
    EXPECT_DOUBLE_EQ(*dataset.std("x", 0), std::sqrt(74.0 / 4));
  }
}

TEST(Aggregate, ResultsOfOneNameAreNumbered) {
  const Dataset dataset = dataset_of(kFields, kRows);
  EXPECT_EQ(dataset.aggregate({Std("y"), Std("y", 0), Std("y", 1)}).size(), 3u);
  EXPECT_TRUE(dataset.aggregate({Std("y"), Std("y", 0), Std("y", 1)}).contains("std(y)_3"));
  EXPECT_TRUE(dataset.aggregate({}).empty());
  EXPECT_THAT(texts_of(dataset.aggregate({Count()})), ElementsAre("count() = 5"));
}

TEST(Aggregate, OfNoRowsThereIsNothing) {
  for (const Dataset& nothing : {dataset_of(kFields, kRows).limit(0), dataset_of(kFields, "[]")}) {
    const AggregateResults results = nothing.aggregate(
        {Count("x"), Sum("x"), Min("y"), AbsMax("x"), Mean("y"), Std("y"), Unique("name"), ValueCounter("x")});
    EXPECT_EQ(results.at("count(x)")->ToString(), "0");
    for (const char* name : {"sum(x)", "min(y)", "abs_max(x)", "mean(y)", "std(y)"}) {
      EXPECT_FALSE(results.at(name)->is_valid) << name;
    }
    EXPECT_EQ(*results.at("sum(x)")->type, *arrow::int64());
    EXPECT_EQ(results.at("unique(name)")->ToString(), "list<item: string>[]");
    EXPECT_THAT(nothing.aggregate({Count()}).at("count()")->ToString(), "0");
  }
}

TEST(Aggregate, SumsOfIntegersAreExactOrAnError) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(from_arrow({numbers_of({most, 5, -6}), numbers_of({1})}).sum("row")->ToString(), std::to_string(most));
  EXPECT_THAT(error_of([&] { from_arrow({numbers_of({most, 1})}).sum("row"); }), HasSubstr("overflow"));
  const Dataset wide = dataset_of({arrow::field("x", arrow::uint64())}, "[[18446744073709551615], [0]]", 2);
  EXPECT_EQ(wide.sum("x")->ToString(), "18446744073709551615");
  const Dataset narrow = dataset_of({arrow::field("x", arrow::int8())}, "[[-128], [127], [100]]", 2);
  EXPECT_EQ(narrow.aggregate({AbsMax("x")}).at("abs_max(x)")->ToString(), "128");
  EXPECT_EQ(narrow.sum("x")->ToString(), "99");
  for (const int64_t blocks : {1, 3}) {
    const Dataset least =
        dataset_of({arrow::field("x", arrow::int64())}, "[[5], [-9223372036854775808], [null]]", blocks);
    const auto found = least.aggregate({AbsMax("x")}).at("abs_max(x)");
    EXPECT_EQ(*found->type, *arrow::uint64());
    EXPECT_EQ(found->ToString(), "9223372036854775808");
  }
}

TEST(Aggregate, MeansOfIntegersAreTheSameForEveryCut) {
  arrow::FieldVector fields = {arrow::field("x", arrow::int64()), arrow::field("is_x", arrow::boolean())};
  std::string rows;
  for (int row = 0; row < 400; ++row) {
    rows += std::string(rows.empty() ? "[" : ", ") + (row * 193 % 400 < 193 ? "[1, true]" : "[0, false]");
  }
  rows += "]";
  const double std = std::sqrt((400.0 * 193 - 193 * 193) / 400 / 400);
  for (const int64_t blocks : {1, 2, 7, 13, 400}) {
    const Dataset dataset = dataset_of(fields, rows, blocks);
    for (const char* column : {"x", "is_x"}) {
      EXPECT_EQ(*dataset.mean(column), 0.4825) << column << " in " << blocks;
      EXPECT_EQ(*dataset.std(column, 0), *dataset_of(fields, rows).std(column, 0)) << column << " in " << blocks;
      EXPECT_DOUBLE_EQ(*dataset.std(column, 0), std);
    }
  }
}

TEST(Aggregate, MomentsOfTheLargestIntegersAreExact) {
  const Dataset wide = dataset_of({arrow::field("x", arrow::uint64()), arrow::field("y", arrow::int64())},
                                  "[[18446744073709551615, -9223372036854775808], "
                                  "[18446744073709551613, -9223372036854775806], "
                                  "[18446744073709551615, -9223372036854775808], "
                                  "[18446744073709551613, -9223372036854775806]]");
  for (const int64_t blocks : {1, 4}) {
    const Dataset dataset = wide.repartition(blocks);
    EXPECT_EQ(*dataset.mean("x"), 18446744073709551614.0);
    EXPECT_EQ(*dataset.mean("y"), -9223372036854775807.0);
    EXPECT_EQ(*dataset.std("x", 0), 1);
    EXPECT_EQ(*dataset.std("y", 0), 1);
  }
  const Dataset decimals = dataset_of({arrow::field("x", arrow::decimal128(5, 0))}, R"([["1"], ["2"]])");
  for (const int64_t blocks : {1, 2}) EXPECT_EQ(*decimals.repartition(blocks).mean("x"), 1.5);
}

TEST(Aggregate, DecimalsAndTruthValuesInSeveralBlocks) {
  const arrow::FieldVector fields = {arrow::field("d", arrow::decimal128(5, 2)), arrow::field("b", arrow::boolean()),
                                     arrow::field("n", arrow::null())};
  for (const int64_t blocks : {1, 2, 3}) {
    const Dataset dataset =
        dataset_of(fields, R"([["1.25", true, null], ["-3.00", false, null], ["0.50", null, null]])", blocks);
    EXPECT_THAT(texts_of(dataset.aggregate(
                    {Sum("d"), Min("d"), AbsMax("d"), Mean("d"), Min("b"), Max("b"), AbsMax("b"), Max("n"), Sum("b")})),
                ElementsAre("abs_max(b) = 1", "abs_max(d) = 3.00", "max(b) = true", "max(n) = null",
                            "mean(d) = -0.4166666666666667", "min(b) = false", "min(d) = -3.00", "sum(b) = 1",
                            "sum(d) = -1.25"));
  }
  const std::string nines(38, '9');
  const Dataset large =
      dataset_of({arrow::field("d", arrow::decimal128(38, 0))}, "[[\"" + nines + "\"], [\"" + nines + "\"]]");
  EXPECT_THAT(error_of([&] { large.aggregate({Sum("d")}); }), HasSubstr("overflow: the sum is too large"));
}

TEST(Aggregate, InfiniteMeansAndZerosAreTheSameForEveryCut) {
  const double infinite = std::numeric_limits<double>::infinity();
  arrow::DoubleBuilder builder;
  ASSERT_TRUE(builder.AppendValues({infinite, 1, infinite, -0.0, 0.0}).ok());
  const auto rows = arrow::RecordBatch::Make(arrow::schema({arrow::field("x", arrow::float64())}), 5,
                                             {builder.Finish().ValueOrDie()});
  for (const int64_t blocks : {1, 2, 5}) {
    EXPECT_THAT(texts_of(from_arrow({rows}).repartition(blocks).aggregate({Mean("x")})), ElementsAre("mean(x) = inf"));
    EXPECT_EQ(from_arrow({rows}).repartition(blocks).unique("x")->length(), 3);
  }
}

TEST(Aggregate, NaNIsAValue) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Dataset dataset = from_items(std::vector{nan, 2.0, -nan, -3.0}).repartition(2);
  EXPECT_TRUE(std::isnan(*dataset.mean("item")));
  EXPECT_TRUE(std::isnan(*dataset.std("item")));
  EXPECT_EQ(dataset.min("item")->ToString(), "-3");
  EXPECT_EQ(dataset.aggregate({AbsMax("item")}).at("abs_max(item)")->ToString(), "3");
  EXPECT_EQ(dataset.unique("item")->length(), 3);
}

TEST(Aggregate, ErrorsNameTheAggregate) {
  const Dataset dataset = dataset_of(kFields, kRows);
  EXPECT_THAT(error_of([&] { dataset.aggregate({Count(), Mean("name")}); }), HasSubstr("mean(\"name\")"));
  EXPECT_THAT(error_of([&] { dataset.aggregate({Std("name")}); }), HasSubstr("std(\"name\")"));
  EXPECT_THAT(error_of([&] { dataset.aggregate({Sum("x"), Max("z")}); }), HasSubstr("there is no column 'z'"));
  EXPECT_THAT(error_of([&] { dataset.aggregate({Aggregate{"mine", "x", nullptr}}); }),
              HasSubstr("the aggregate 'mine' has no accumulator"));
}

TEST(Dataset, WithColumnsSeesThoseBefore) {
  const auto plus = [](const std::string& name) {
    return compute::call("add", {compute::field_ref(name), compute::literal(int64_t{1})});
  };
  const auto rows = range(2).with_columns({{"b", plus("id")}, {"a", plus("b")}, {"id", plus("a")}}).take();
  EXPECT_THAT(rows->schema()->field_names(), ElementsAre("id", "b", "a"));
  EXPECT_EQ(rows->column(0)->GetScalar(1).ValueOrDie()->ToString(), "4");
}

}  // namespace
}  // namespace paceline::data
