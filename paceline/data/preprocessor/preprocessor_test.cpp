#include "paceline/data/preprocessor/preprocessor.h"

#include <arrow/array.h>
#include <arrow/json/from_string.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/table.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "paceline/core/error.h"
#include "paceline/data/dataset/read_api.h"
#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/plan/codec.h"
#include "paceline/data/preprocessor/chain.h"
#include "paceline/data/preprocessor/concatenator.h"
#include "paceline/data/preprocessor/encoder.h"
#include "paceline/data/preprocessor/imputer.h"
#include "paceline/data/preprocessor/scaler.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::data::preprocessors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Dataset rows_of(const arrow::FieldVector& fields, const std::string& json) {
  const auto rows = arrow::json::ArrayFromJSONString(arrow::struct_(fields), json).ValueOrDie();
  return from_arrow({arrow::RecordBatch::FromStructArray(rows).ValueOrDie()});
}

// The plan as another process gets it.
Dataset travelled(const Dataset& dataset) {
  const auto bytes = arrow::Buffer::FromString(encode_plans({{"x", dataset.plan()}}).ValueOrDie());
  return Dataset(decode_plans(bytes).ValueOrDie().at("x"));
}

// The rows of a column, as they are here and in another process, for one block and for several.
void expect_column(const Dataset& dataset, const std::string& column, const std::shared_ptr<arrow::DataType>& type,
                   const std::string& json) {
  const auto expected = arrow::json::ArrayFromJSONString(type, json).ValueOrDie();
  EXPECT_EQ(*dataset.schema()->GetFieldByName(column)->type(), *type);
  for (const Dataset& one : {dataset, travelled(dataset), dataset.select_columns({column})}) {
    const auto values = one.take_all()->CombineChunksToBatch().ValueOrDie()->GetColumnByName(column);
    ASSERT_NE(values, nullptr);
    EXPECT_TRUE(values->ApproxEquals(expected, arrow::EqualOptions::Defaults().nans_equal(true)))
        << values->ToString() << "\nwanted " << expected->ToString();
  }
}

template <class Kind>
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Kind& error) {
    return error.what();
  }
  return "no error";
}

const arrow::FieldVector kNumbers = {arrow::field("x", arrow::int32()), arrow::field("same", arrow::int64()),
                                     arrow::field("y", arrow::float64())};
// x: mean 3, squares 4 + 4 + 4 + 4, std 2. y: mean 0, squares 4 + 4, std sqrt(8 / 3).
constexpr const char* kRows = R"([[1, 7, -2], [5, 7, null], [null, 7, 0], [1, 7, 2], [5, 7, NaN]])";

Dataset numbers(int64_t blocks = 2) {
  return rows_of(kNumbers, kRows).repartition(blocks);
}

TEST(Scalers, AreThoseOfAllRows) {
  for (const int64_t blocks : {1, 2, 5}) {
    const Dataset standard = StandardScaler({"x", "same", "y"}).fit_transform(numbers(blocks));
    expect_column(standard, "x", arrow::float64(), "[-1, 1, null, -1, 1]");
    expect_column(standard, "same", arrow::float64(), "[0, 0, 0, 0, 0]");
    expect_column(standard, "y", arrow::float64(), "[-1.224744871391589, null, 0, 1.224744871391589, NaN]");
  }
  const Dataset least = MinMaxScaler({"x", "same", "y"}, {"x", "zero", "part"}).fit_transform(numbers());
  EXPECT_THAT(least.columns(), ElementsAre("x", "same", "y", "zero", "part"));
  expect_column(least, "x", arrow::float64(), "[0, 1, null, 0, 1]");
  expect_column(least, "zero", arrow::float64(), "[0, 0, 0, 0, 0]");
  expect_column(least, "part", arrow::float64(), "[0, null, 0.5, 1, NaN]");
  expect_column(least, "y", arrow::float64(), "[-2, null, 0, 2, NaN]");
  const Dataset absolute = MaxAbsScaler({"x", "same", "y"}).fit_transform(numbers());
  expect_column(absolute, "x", arrow::float64(), "[0.2, 1, null, 0.2, 1]");
  expect_column(absolute, "same", arrow::float64(), "[1, 1, 1, 1, 1]");
  expect_column(absolute, "y", arrow::float64(), "[-1, null, 0, 1, NaN]");
  const Dataset zeros = rows_of({arrow::field("x", arrow::float32())}, "[[0], [0]]");
  expect_column(MaxAbsScaler({"x"}).fit_transform(zeros), "x", arrow::float64(), "[0, 0]");
}

TEST(Scalers, KnowWhatTheyHaveLearntOfOtherRows) {
  StandardScaler scaler({"x"});
  const Dataset test = rows_of({arrow::field("x", arrow::int8())}, "[[7], [-128], [null]]");
  expect_column(scaler.fit(numbers()).transform(test), "x", arrow::float64(), "[2, -65.5, null]");
  EXPECT_THAT(scaler.transform(test).explain(),
              HasSubstr("WithColumn(x = divide(subtract(cast(x, {to_type=double}), 3), 2))"));
  const StandardScaler copy = scaler;
  expect_column(scaler.fit(test).transform(test.limit(1)), "x", arrow::float64(), "[1]");  // mean -60.5, std 67.5
  expect_column(copy.transform(test.limit(1)), "x", arrow::float64(), "[2]");
}

TEST(Scalers, LargeIntegersAreTheNearestDoubles) {
  const auto of = [](const std::shared_ptr<arrow::DataType>& type, const std::string& json) {
    return rows_of({arrow::field("x", type)}, json).repartition(2);
  };
  const Dataset odd = of(arrow::int64(), "[[9007199254740993], [0]]");
  expect_column(MinMaxScaler({"x"}).fit_transform(odd), "x", arrow::float64(), "[1, 0]");
  expect_column(MaxAbsScaler({"x"}).fit_transform(odd), "x", arrow::float64(), "[1, 0]");
  const Dataset all = of(arrow::int64(), "[[-9223372036854775808], [0], [9223372036854775807], [null]]");
  expect_column(MinMaxScaler({"x"}).fit_transform(all), "x", arrow::float64(), "[0, 0.5, 1, null]");
  expect_column(MaxAbsScaler({"x"}).fit_transform(all), "x", arrow::float64(), "[-1, 0, 1, null]");
  expect_column(MaxAbsScaler({"x"}).fit_transform(of(arrow::uint64(), "[[18446744073709551615], [0]]")), "x",
                arrow::float64(), "[1, 0]");
  MaxAbsScaler learnt({"x"});
  learnt.fit(all);
  MaxAbsScaler other({"x"});
  other.load_state(learnt.state());
  expect_column(other.transform(all), "x", arrow::float64(), "[-1, 0, 1, null]");
}

TEST(Scalers, OfNothingAllIsNaN) {
  const Dataset nothing = numbers().limit(0);
  const Dataset one = rows_of(kNumbers, "[[1, null, null], [3, 4, 5]]");
  expect_column(StandardScaler({"x"}).fit(nothing).transform(one), "x", arrow::float64(), "[NaN, NaN]");
  expect_column(MinMaxScaler({"same"}).fit(nothing).transform(one), "same", arrow::float64(), "[null, NaN]");
  expect_column(MaxAbsScaler({"y"}).fit(nothing).transform(one), "y", arrow::float64(), "[null, NaN]");
  expect_column(StandardScaler({"x"}).fit(one).transform(nothing), "x", arrow::float64(), "[]");
}

const arrow::FieldVector kWords = {arrow::field("word", arrow::utf8()), arrow::field("id", arrow::int32())};

Dataset words() {
  return rows_of(kWords, R"([["pear", 30], ["apple", 10], ["pear", 20], ["fig", 10], ["pear", 10]])").repartition(3);
}

TEST(Encoders, NumberCategoriesInTheirOrder) {
  OrdinalEncoder ordinal({"word", "id"}, {"word", "place"});
  const Dataset encoded = ordinal.fit_transform(words());
  expect_column(encoded, "word", arrow::int64(), "[2, 0, 2, 1, 2]");
  expect_column(encoded, "place", arrow::int64(), "[2, 0, 1, 0, 0]");
  EXPECT_EQ(ordinal.stats().at("unique_values(word)")->ToString(), "list<item: string>[apple, fig, pear]");
  const Dataset unseen = rows_of(kWords, R"([["plum", 20], ["fig", -1]])");
  expect_column(ordinal.transform(unseen), "word", arrow::int64(), "[null, 1]");
  expect_column(ordinal.transform(unseen), "place", arrow::int64(), "[1, null]");
  expect_column(ordinal.fit(words().limit(0)).transform(unseen), "word", arrow::int64(), "[null, null]");
}

TEST(Encoders, OneHotHasAPlaceForEach) {
  OneHotEncoder hot({"word"});
  const auto three = arrow::fixed_size_list(arrow::uint8(), 3);
  expect_column(hot.fit_transform(words()), "word", three, "[[0,0,1], [1,0,0], [0,0,1], [0,1,0], [0,0,1]]");
  const Dataset unseen = rows_of(kWords, R"([["plum", 20], ["fig", 30]])");
  expect_column(hot.transform(unseen), "word", three, "[[0,0,0], [0,1,0]]");
  OneHotEncoder frequent({"word", "id"}, {{"word", 1}, {"id", 2}}, {"a", "b"});
  const Dataset made = frequent.fit_transform(words());
  EXPECT_THAT(made.columns(), ElementsAre("word", "id", "a", "b"));
  expect_column(made, "a", arrow::fixed_size_list(arrow::uint8(), 1), "[[1], [0], [1], [0], [1]]");
  // 10 comes three times, 30 and 20 once each: the first of them counts.
  expect_column(made, "b", arrow::fixed_size_list(arrow::uint8(), 2), "[[0,1], [1,0], [0,0], [1,0], [1,0]]");
}

TEST(Encoders, OneHotNeedsCategories) {
  OneHotEncoder hot({"word"});
  hot.fit(words().limit(0));
  EXPECT_THAT(error_of<ConfigError>([&] { hot.transform(words()); }),
              HasSubstr("the column 'word' had no values to learn from"));
}

TEST(Encoders, LabelsComeBack) {
  LabelEncoder labels("word", "label");
  const Dataset encoded = labels.fit_transform(words());
  EXPECT_THAT(encoded.columns(), ElementsAre("word", "id", "label"));
  const Dataset back = labels.inverse_transform(encoded.drop_columns({"word"}));
  expect_column(back, "word", arrow::utf8(), R"(["pear", "apple", "pear", "fig", "pear"])");
  const Dataset predicted = rows_of({arrow::field("label", arrow::int32())}, "[[1], [9], [null], [-1]]");
  expect_column(labels.inverse_transform(predicted), "word", arrow::utf8(), R"(["fig", null, null, null])");
  const auto of = [](const std::shared_ptr<arrow::DataType>& type, const std::string& json) {
    return rows_of({arrow::field("label", type)}, json);
  };
  expect_column(labels.inverse_transform(of(arrow::float32(), "[[1], [NaN], [1e30]]")), "word", arrow::utf8(),
                R"(["fig", null, null])");
  expect_column(labels.inverse_transform(of(arrow::uint64(), "[[1], [18446744073709551615]]")), "word", arrow::utf8(),
                R"(["fig", null])");
  expect_column(labels.inverse_transform(of(arrow::decimal128(5, 2), R"([["1.00"], ["-1.00"]])")), "word",
                arrow::utf8(), R"(["fig", null])");
  EXPECT_THAT(error_of<ConfigError>([&] { labels.inverse_transform(of(arrow::float64(), "[[1.7]]")).take(); }),
              HasSubstr("the column 'label' has 1.7; wanted: places, which are integers"));
  EXPECT_THAT(error_of<ConfigError>([&] { labels.inverse_transform(of(arrow::utf8(), R"([["1"]])")).take(); }),
              HasSubstr("the column 'label' has string; wanted: places"));
}

TEST(Encoders, FindNumbersOfOtherTypes) {
  const auto column = [](const std::shared_ptr<arrow::DataType>& type, const std::string& json) {
    return rows_of({arrow::field("id", type)}, json);
  };
  OrdinalEncoder narrow({"id"});
  narrow.fit(column(arrow::int32(), "[[1], [2]]"));
  expect_column(narrow.transform(column(arrow::int64(), "[[1099511627776], [2], [-1099511627776], [1]]")), "id",
                arrow::int64(), "[null, 1, null, 0]");
  expect_column(narrow.transform(column(arrow::float64(), "[[1.5], [2], [1e300], [1]]")), "id", arrow::int64(),
                "[null, 1, null, 0]");
  expect_column(narrow.transform(column(arrow::int64(), "[]")), "id", arrow::int64(), "[]");
  OneHotEncoder truth({"id"});
  truth.fit(column(arrow::boolean(), "[[true], [false]]"));
  expect_column(truth.transform(column(arrow::int64(), "[[1], [2], [0], [-1]]")), "id",
                arrow::fixed_size_list(arrow::uint8(), 2), "[[0,1], [0,0], [1,0], [0,0]]");
  OrdinalEncoder wide({"id"});
  wide.fit(column(arrow::int64(), "[[1], [2]]"));
  for (const char* texts : {R"([["1"], ["unknown"]])", R"([["1"], ["2"]])"}) {
    EXPECT_THAT(error_of<ConfigError>([&] { wide.transform(column(arrow::utf8(), texts)).take(); }),
                HasSubstr("the column 'id' has string; wanted, as it was learnt: int64"));
  }
  OrdinalEncoder text({"id"});
  text.fit(column(arrow::utf8(), R"([["1"]])"));
  EXPECT_THAT(error_of<ConfigError>([&] { text.transform(column(arrow::int8(), "[[1]]")).take(); }),
              HasSubstr("the column 'id' has int8; wanted, as it was learnt: string"));
  expect_column(text.transform(column(arrow::large_utf8(), R"([["2"], ["1"]])")), "id", arrow::int64(), "[null, 0]");
}

// The column `x` of one type, encoded by the values of one of another.
Dataset encoded_by(const std::shared_ptr<arrow::DataType>& learnt, const std::string& values,
                   const std::shared_ptr<arrow::DataType>& type, const std::string& json) {
  OrdinalEncoder encoder({"x"});
  encoder.fit(rows_of({arrow::field("x", learnt)}, values));
  return encoder.transform(rows_of({arrow::field("x", type)}, json));
}

TEST(Encoders, FindNumbersByWhatTheyAre) {
  const auto expect = [](const std::shared_ptr<arrow::DataType>& learnt, const std::string& values,
                         const std::shared_ptr<arrow::DataType>& type, const std::string& json,
                         const std::string& places) {
    SCOPED_TRACE(learnt->ToString() + " and " + type->ToString());
    expect_column(encoded_by(learnt, values, type, json), "x", arrow::int64(), places);
  };
  const auto decimal = arrow::decimal128(5, 2);
  constexpr const char* kDecimals = R"([["1.00"], ["2.50"]])";
  expect(decimal, kDecimals, arrow::int64(), "[[1], [2], [9223372036854775807]]", "[0, null, null]");
  expect(decimal, kDecimals, arrow::float64(), "[[1], [2.5], [0.1], [1e300]]", "[0, 1, null, null]");
  expect(decimal, kDecimals, arrow::decimal128(5, 3), R"([["1.000"], ["2.505"]])", "[0, null]");
  const std::string zeros(69, '0');
  const std::string fine = "[[\"1.0" + zeros + "\"], [\"2.5" + zeros + "\"]]";
  expect(decimal, kDecimals, arrow::decimal256(76, 70), fine, "[0, 1]");
  expect(arrow::decimal256(76, 70), fine, arrow::uint64(), "[[1], [18446744073709551615]]", "[0, null]");
  expect(arrow::decimal128(38, 0), R"([["10000000000000000000000"]])", arrow::float64(), "[[1e22], [1e300]]",
         "[0, null]");
  expect(arrow::int64(), "[[1], [2]]", decimal, kDecimals, "[0, null]");
  // No float and no decimal is what the double 0.1 is.
  expect(arrow::float32(), "[[0.1], [2]]", arrow::float64(), "[[0.1], [2], [0.10000000149011612], [1e300]]",
         "[null, 1, 0, null]");
  expect(arrow::float64(), "[[0.1], [2]]", arrow::float32(), "[[0.1], [2]]", "[null, 1]");
  expect(arrow::float64(), "[[0.1], [2], [-0.375]]", decimal, R"([["0.10"], ["2.00"], ["-0.37"]])", "[null, 2, null]");
  expect(arrow::float64(), "[[0.1], [2], [-0.375]]", arrow::decimal128(9, 4), R"([["-0.3750"]])", "[0]");
  expect(arrow::float16(), "[[1.5], [2]]", arrow::float32(), "[[1.5], [0.1]]", "[0, null]");
  expect(arrow::int8(), "[[1], [2]]", arrow::float16(), "[[1.5], [2]]", "[null, 1]");
  // 2^53 + 1 is no double; 2^63 is one, and no int64.
  expect(arrow::float64(), "[[9007199254740992]]", arrow::int64(), "[[9007199254740992], [9007199254740993]]",
         "[0, null]");
  expect(arrow::int64(), "[[9007199254740992], [9007199254740993], [9223372036854775807]]", arrow::float64(),
         "[[9007199254740992], [9223372036854775808]]", "[0, null]");
  expect(arrow::uint64(), "[[9223372036854775808]]", arrow::float64(), "[[9223372036854775808], [-1]]", "[0, null]");
  expect(arrow::uint64(), "[[18446744073709551615], [1]]", arrow::int64(), "[[-1], [1]]", "[null, 0]");
  expect(arrow::int64(), "[[-1], [1]]", arrow::uint64(), "[[18446744073709551615], [1]]", "[null, 1]");
  expect(arrow::boolean(), "[[true], [false]]", arrow::float64(), "[[0.5], [1], [0]]", "[null, 1, 0]");
  expect(arrow::float64(), "[[0.5], [1], [-0.0]]", arrow::boolean(), "[[true], [false]]", "[2, 0]");
}

TEST(Encoders, FindTimesAndTextsByWhatTheyAre) {
  const auto micro = arrow::timestamp(arrow::TimeUnit::MICRO);
  expect_column(encoded_by(micro, "[[1000], [2001]]", arrow::timestamp(arrow::TimeUnit::MILLI), "[[1], [2]]"), "x",
                arrow::int64(), "[0, null]");
  expect_column(
      encoded_by(micro, "[[1000], [2001]]", arrow::timestamp(arrow::TimeUnit::NANO), "[[1000000], [1000001]]"), "x",
      arrow::int64(), "[0, null]");
  expect_column(encoded_by(arrow::date32(), "[[1], [2]]", micro, "[[86400000000], [86400000001]]"), "x", arrow::int64(),
                "[0, null]");
  expect_column(encoded_by(arrow::utf8(), R"([["ab"], ["c"]])", arrow::fixed_size_binary(2), R"([["ab"], ["cd"]])"),
                "x", arrow::int64(), "[0, null]");
  expect_column(encoded_by(arrow::utf8(), R"([["ab"], ["c"]])", arrow::utf8_view(), R"([["c"], ["cd"]])"), "x",
                arrow::int64(), "[1, null]");
}

// Each of them would cost what thousands of others do if it were looked for alone.
TEST(Encoders, NumbersThatTheirTypeDoesNotHoldCostNoMore) {
  constexpr int64_t kRows = 50'000;
  arrow::DoubleBuilder builder;
  for (int64_t row = 0; row < kRows; ++row) ASSERT_TRUE(builder.Append(static_cast<double>(row) + 0.5).ok());
  const auto schema = arrow::schema({arrow::field("x", arrow::float64())});
  const Dataset halves = from_arrow({arrow::RecordBatch::Make(schema, kRows, {builder.Finish().ValueOrDie()})});
  LabelEncoder encoder("x", "place");
  encoder.fit(rows_of({arrow::field("x", arrow::int64())}, "[[1], [2]]"));
  const int64_t before = reading_memory()->num_allocations();
  const auto made = encoder.transform(halves).take_all()->GetColumnByName("place");
  EXPECT_EQ(made->null_count(), kRows);
  EXPECT_LT(reading_memory()->num_allocations() - before, kRows / 100);
}

TEST(Encoders, NullsAreErrors) {
  const Dataset nulls = rows_of(kWords, R"([["fig", 20], [null, 30]])");
  const std::string text = "the column 'word' has nulls; fill them first";
  EXPECT_THAT(error_of<ConfigError>([&] { OrdinalEncoder({"word"}).fit(nulls); }), HasSubstr(text));
  OneHotEncoder hot({"word"});
  EXPECT_THAT(error_of<Error>([&] { hot.fit(words()).transform(nulls).take(); }), HasSubstr(text));
  const Dataset nan = rows_of(kNumbers, "[[1, 1, NaN]]");
  EXPECT_THAT(error_of<ConfigError>([&] { OrdinalEncoder({"y"}).fit(nan); }), HasSubstr("the column 'y' has nulls"));
}

TEST(SimpleImputer, FillsNullsAndNaN) {
  // x: 12 / 4; y: 0 / 3.
  const Dataset mean = SimpleImputer({"x", "y"}).fit_transform(numbers());
  expect_column(mean, "x", arrow::float64(), "[1, 5, 3, 1, 5]");
  expect_column(mean, "y", arrow::float64(), "[-2, 0, 0, 2, 0]");
  SimpleImputer frequent({"word", "id"}, {.strategy = "most_frequent", .output_columns = {"word", "number"}});
  const Dataset missing = rows_of(kWords, R"([[null, null], ["fig", 4], ["kiwi", null], ["kiwi", 3], [null, null]])");
  const Dataset filled = frequent.fit_transform(missing);
  expect_column(filled, "word", arrow::utf8(), R"(["kiwi", "fig", "kiwi", "kiwi", "kiwi"])");
  expect_column(filled, "number", arrow::int32(), "[4, 4, 4, 3, 4]");
  const SimpleImputer half({"x"}, {.strategy = "constant", .fill_value = arrow::MakeScalar(0.5)});
  expect_column(half.transform(numbers()), "x", arrow::float64(), "[1, 5, 0.5, 1, 5]");
  const SimpleImputer zero({"x"}, {.strategy = "constant", .fill_value = arrow::MakeScalar(int64_t{0})});
  expect_column(zero.transform(numbers()), "x", arrow::int32(), "[1, 5, 0, 1, 5]");
  const SimpleImputer text({"word"}, {.strategy = "constant", .fill_value = arrow::MakeScalar("none")});
  expect_column(text.transform(missing.limit(2)), "word", arrow::utf8(), R"(["none", "fig"])");
}

TEST(SimpleImputer, FillsColumnsOfOtherTypesThanItHasLearnt) {
  const auto filled = [](const std::shared_ptr<arrow::DataType>& learnt, const std::string& values,
                         const std::shared_ptr<arrow::DataType>& type, const std::string& json) {
    SimpleImputer imputer({"x"}, {.strategy = "most_frequent"});
    imputer.fit(rows_of({arrow::field("x", learnt)}, values));
    return imputer.transform(rows_of({arrow::field("x", type)}, json));
  };
  const auto decimal = arrow::decimal128(5, 2);
  constexpr const char* kOne = R"([["1.00"], [null]])";
  expect_column(filled(decimal, kOne, arrow::decimal128(5, 3), R"([[null], ["2.505"]])"), "x", arrow::decimal128(5, 3),
                R"(["1.000", "2.505"])");
  expect_column(filled(decimal, kOne, arrow::int64(), "[[null], [2]]"), "x", arrow::int64(), "[1, 2]");
  expect_column(filled(arrow::int64(), "[[1]]", decimal, R"([[null], ["2.50"]])"), "x", decimal, R"(["1.00", "2.50"])");
  expect_column(filled(arrow::float64(), "[[0.5]]", arrow::int64(), "[[null], [2]]"), "x", arrow::float64(),
                "[0.5, 2]");
  expect_column(filled(arrow::boolean(), "[[true]]", arrow::float64(), "[[NaN], [2]]"), "x", arrow::float64(),
                "[1, 2]");
  expect_column(filled(arrow::int8(), "[[-7]]", arrow::float16(), "[[NaN], [2]]"), "x", arrow::float16(), "[-7, 2]");
  expect_column(filled(arrow::uint64(), "[[18446744073709551615]]", arrow::null(), "[[null]]"), "x", arrow::uint64(),
                "[18446744073709551615]");
  expect_column(filled(arrow::boolean(), "[[true]]", arrow::boolean(), "[[null], [false]]"), "x", arrow::boolean(),
                "[true, false]");
  expect_column(filled(arrow::date32(), "[[7]]", arrow::date32(), "[[null], [1]]"), "x", arrow::date32(), "[7, 1]");
  for (const bool is_read : {true, false}) {
    const auto texts = filled(arrow::int64(), "[[1]]", arrow::utf8(), R"([["7"], [null]])");
    EXPECT_THAT(error_of<ConfigError>([&] { is_read ? void(texts.take()) : void(texts.schema()); }),
                HasSubstr("the column 'x' has string, which a value of int64 cannot fill"));
  }
}

TEST(SimpleImputer, NeedsValues) {
  const Dataset nothing = numbers().limit(0);
  EXPECT_THAT(error_of<ConfigError>([&] { SimpleImputer({"x"}).fit_transform(nothing); }),
              HasSubstr("the column 'x' had no values to learn from"));
  EXPECT_THAT(
      error_of<ConfigError>([&] { SimpleImputer({"x"}, {.strategy = "most_frequent"}).fit_transform(nothing); }),
      HasSubstr("the column 'x' had no values to learn from"));
  EXPECT_THAT(error_of<ConfigError>([] { SimpleImputer({"x"}, {.strategy = "median"}); }), HasSubstr("'median'"));
  EXPECT_THAT(error_of<ConfigError>([] { SimpleImputer({"x"}, {.strategy = "constant"}); }), HasSubstr("fill_value"));
  EXPECT_THAT(error_of<ConfigError>([] { SimpleImputer({"x"}, {.fill_value = arrow::MakeScalar(0.5)}); }),
              HasSubstr("fill_value is for the strategy 'constant'; the strategy is 'mean'"));
}

TEST(Concatenator, MakesArraysOfColumns) {
  const Dataset dataset = numbers();
  const Dataset doubles = Concatenator({"y", "x"}).transform(dataset);
  EXPECT_THAT(doubles.columns(), ElementsAre("same", "concat_out"));
  expect_column(doubles, "concat_out", arrow::fixed_size_list(arrow::float64(), 2),
                "[[-2, 1], [NaN, 5], [0, NaN], [2, 1], [NaN, 5]]");
  const Dataset floats = Concatenator({"x", "same"}, {.output_column_name = "x", .dtype = arrow::float32()})
                             .transform(dataset.filter(arrow::compute::is_valid(arrow::compute::field_ref("x"))));
  EXPECT_THAT(floats.columns(), ElementsAre("y", "x"));
  expect_column(floats, "x", arrow::fixed_size_list(arrow::float32(), 2), "[[1, 7], [5, 7], [1, 7], [5, 7]]");
  expect_column(Concatenator({"same"}).transform(dataset.limit(0)), "concat_out",
                arrow::fixed_size_list(arrow::int64(), 1), "[]");
  EXPECT_THAT(error_of<Error>([&] { Concatenator({"same", "x"}).transform(dataset).take(); }),
              HasSubstr("the column 'x' has nulls, NaN or infinite numbers, which int64 has not"));
  EXPECT_THAT(error_of<Error>([&] { Concatenator({"y"}, {.dtype = arrow::int8()}).transform(dataset).take(); }),
              HasSubstr("which int8 has not"));
  EXPECT_THAT(error_of<Error>([&] { Concatenator({"x", "z"}).transform(dataset).schema(); }),
              HasSubstr("there is no column 'z'; there are x, same, y"));
  EXPECT_THAT(error_of<Error>([] { Concatenator({"word"}).transform(words()).schema(); }),
              HasSubstr("the column 'word' has string; wanted: numbers"));
}

TEST(Concatenator, CutsFractionsButNotNumbers) {
  const auto of = [](const std::shared_ptr<arrow::DataType>& from, const std::string& json,
                     const std::shared_ptr<arrow::DataType>& dtype) {
    return Concatenator({"x"}, {.dtype = dtype}).transform(rows_of({arrow::field("x", from)}, json));
  };
  const auto error = [&](const auto& from, const std::string& json, const auto& dtype) {
    return error_of<ConfigError>([&] { of(from, json, dtype).take(); });
  };
  expect_column(of(arrow::float64(), "[[255.9], [-0.9]]", arrow::uint8()), "concat_out",
                arrow::fixed_size_list(arrow::uint8(), 1), "[[255], [0]]");
  expect_column(of(arrow::uint64(), "[[9223372036854775807]]", arrow::int64()), "concat_out",
                arrow::fixed_size_list(arrow::int64(), 1), "[[9223372036854775807]]");
  EXPECT_THAT(error(arrow::float64(), "[[1e10], [-1e300]]", arrow::int32()),
              HasSubstr("the column 'x' has numbers from -1e+300 to 1e+10, which int32 does not hold"));
  EXPECT_THAT(error(arrow::int64(), "[[300], [-1]]", arrow::uint8()),
              HasSubstr("numbers from -1 to 300, which uint8 does not hold"));
  EXPECT_THAT(error(arrow::uint64(), "[[9223372036854775808]]", arrow::int64()),
              HasSubstr("which int64 does not hold"));
  EXPECT_THAT(error(arrow::float64(), "[[9223372036854775808]]", arrow::int64()), HasSubstr("int64 does not hold"));
  EXPECT_THAT(error(arrow::float32(), "[[256]]", arrow::uint8()), HasSubstr("which uint8 does not hold"));
}

TEST(Concatenator, RefusesNumbersThatBecomeInfinite) {
  const auto of = [](const std::shared_ptr<arrow::DataType>& from, const std::string& json,
                     const std::shared_ptr<arrow::DataType>& dtype) {
    return Concatenator({"x"}, {.dtype = dtype}).transform(rows_of({arrow::field("x", from)}, json));
  };
  const auto error = [&](const auto& from, const std::string& json, const auto& dtype) {
    return error_of<ConfigError>([&] { of(from, json, dtype).take(); });
  };
  EXPECT_THAT(error(arrow::float64(), "[[1], [null], [-1e300]]", arrow::float32()),
              HasSubstr("the column 'x' has -1e+300, which float does not hold: take a wider dtype"));
  EXPECT_THAT(error(arrow::float64(), "[[1e300]]", arrow::float16()), HasSubstr("has 1e+300, which halffloat"));
  EXPECT_THAT(error(arrow::float32(), "[[70000]]", arrow::float16()), HasSubstr("has 70000, which halffloat"));
  EXPECT_THAT(error(arrow::int32(), "[[70000]]", arrow::float16()), HasSubstr("has 70000, which halffloat"));
  expect_column(of(arrow::float64(), "[[3e38], [Inf], [NaN], [null], [1e-300]]", arrow::float32()), "concat_out",
                arrow::fixed_size_list(arrow::float32(), 1), "[[3e38], [Inf], [NaN], [NaN], [0]]");
  expect_column(of(arrow::int64(), "[[9223372036854775807]]", arrow::float32()), "concat_out",
                arrow::fixed_size_list(arrow::float32(), 1), "[[9223372036854775807]]");
}

TEST(Concatenator, MakesHalfPrecisionOfTruthValues) {
  const Dataset truth = rows_of({arrow::field("x", arrow::boolean())}, "[[true], [false], [null]]");
  const auto made = Concatenator({"x"}, {.dtype = arrow::float16()}).transform(truth);
  expect_column(made, "concat_out", arrow::fixed_size_list(arrow::float16(), 1), "[[1], [0], [NaN]]");
}

TEST(Concatenator, FlattensArrays) {
  const auto pair = arrow::fixed_size_list(arrow::uint8(), 2);
  const Dataset dataset =
      rows_of({arrow::field("a", arrow::float32()), arrow::field("b", pair), arrow::field("c", arrow::boolean())},
              "[[0.5, [1, 2], true], [1.5, [3, 4], false], [2.5, [5, 6], true]]");
  // Of rows in the middle of what is in memory, too.
  const Dataset last = dataset.split_at_indices({1})[1];
  const Concatenator flat({"c", "b", "a"}, {.dtype = arrow::float32(), .flatten = true});
  expect_column(flat.transform(last), "concat_out", arrow::fixed_size_list(arrow::float32(), 4),
                "[[0, 3, 4, 1.5], [1, 5, 6, 2.5]]");
  EXPECT_THAT(error_of<Error>([&] { Concatenator({"b"}).transform(dataset).schema(); }), HasSubstr("or flatten"));
}

TEST(Chain, LearnsOneAfterTheOther) {
  const testing::TemporaryFolder folder;
  numbers().write_parquet(folder.path());
  const Dataset files = read_parquet(folder.path());
  const auto arrays = [] {
    return Chain(SimpleImputer({"x", "y"}), MinMaxScaler({"x", "y"}),
                 Concatenator({"x", "y"}, {.output_column_name = "features", .dtype = arrow::float32()}));
  };
  Chain chain = arrays();
  EXPECT_EQ(chain.fit_status(), FitStatus::not_fitted);
  EXPECT_THROW(chain.transform(files), UsageError);
  const Dataset made = chain.fit_transform(files);
  EXPECT_EQ(chain.fit_status(), FitStatus::fitted);
  const auto type = arrow::fixed_size_list(arrow::float32(), 2);
  constexpr const char* kMade = "[[0, 0], [1, 0.5], [0.5, 0.5], [0, 1], [1, 0.5]]";
  expect_column(made, "features", type, kMade);
  // The steps say what is read: the column "same" is not.
  EXPECT_THAT(made.select_columns({"features"}).explain(), Not(HasSubstr("same")));
  Chain other = arrays();
  other.load_state(decode_json(encode_json(chain.state())).ValueOrDie());
  expect_column(other.transform(files), "features", type, kMade);
}

TEST(Preprocessor, StatesAreWhatWasLearnt) {
  OneHotEncoder hot({"word"});
  EXPECT_THAT(error_of<UsageError>([&] { hot.transform(words()); }), HasSubstr("OneHotEncoder has not learnt yet"));
  EXPECT_THAT(error_of<UsageError>([&] { hot.state(); }), HasSubstr("call fit()"));
  hot.fit(words());
  OneHotEncoder other({"word"});
  other.load_state(hot.state());
  EXPECT_EQ(other.fit_status(), FitStatus::fitted);
  EXPECT_EQ(other.stats().at("unique_values(word)")->ToString(), "list<item: string>[apple, fig, pear]");
  EXPECT_THAT(error_of<ConfigError>([&] { OrdinalEncoder({"word"}).load_state(hot.state()); }),
              HasSubstr("this is no state of a OrdinalEncoder"));
  EXPECT_THAT(error_of<ConfigError>([&] { other.load_state(Json::array()); }), HasSubstr("this is no state"));
  OneHotEncoder wider({"word", "id"});
  EXPECT_THAT(error_of<ConfigError>([&] { wider.load_state(hot.state()); }),
              HasSubstr(R"(it is of {"columns":["word"]}; wanted: of {"columns":["word","id"]})"));
  EXPECT_EQ(wider.fit_status(), FitStatus::not_fitted);
  OneHotEncoder fewer({"word"}, {{"word", 1}});
  EXPECT_THAT(error_of<ConfigError>([&] { fewer.load_state(hot.state()); }), HasSubstr("max_categories"));
  OneHotEncoder elsewhere({"word"}, {}, {"hot"});
  elsewhere.load_state(hot.state());
  EXPECT_THAT(elsewhere.transform(words()).columns(), ElementsAre("word", "id", "hot"));
  Json without = hot.state();
  without["stats"] = Json::object();
  other.load_state(without);
  EXPECT_THAT(error_of<ConfigError>([&] { other.transform(words()); }), HasSubstr("nothing of the column 'word'"));
  SimpleImputer mean({"x"});
  SimpleImputer frequent({"x"}, {.strategy = "most_frequent"});
  EXPECT_THAT(error_of<ConfigError>([&] { frequent.load_state(mean.fit(numbers()).state()); }), HasSubstr("strategy"));
  EXPECT_EQ(frequent.fit_status(), FitStatus::not_fitted);
}

TEST(Chain, LoadsAllOrNothing) {
  Chain learnt(SimpleImputer({"x"}), StandardScaler({"x"}));
  learnt.fit(numbers());
  Chain other(SimpleImputer({"x"}), StandardScaler({"y"}));
  EXPECT_THAT(error_of<ConfigError>([&] { other.load_state(learnt.state()); }),
              HasSubstr("this is no state of a StandardScaler"));
  EXPECT_EQ(other.fit_status(), FitStatus::not_fitted);
  Json unnamed = learnt.state();
  unnamed["name"] = "StandardScaler";
  EXPECT_THAT(error_of<ConfigError>([&] { learnt.load_state(unnamed); }), HasSubstr("this is no state of a Chain"));
}

TEST(Chain, RefusesNothingAsAPart) {
  const auto scaler = std::make_shared<StandardScaler>(std::vector<std::string>{"x"});
  const std::vector<std::shared_ptr<Preprocessor>> parts = {scaler, nullptr};
  EXPECT_THAT(error_of<ConfigError>([&] { Chain chain(parts); }), HasSubstr("at 1 is a null pointer"));
  Chain shared(std::vector<std::shared_ptr<Preprocessor>>{scaler});
  shared.fit(numbers());
  EXPECT_EQ(scaler->fit_status(), FitStatus::fitted);
}

TEST(Preprocessor, ErrorsNameColumns) {
  for (const std::shared_ptr<Preprocessor>& one :
       std::vector<std::shared_ptr<Preprocessor>>{std::make_shared<StandardScaler>(std::vector<std::string>{"z"}),
                                                  std::make_shared<MaxAbsScaler>(std::vector<std::string>{"z"}),
                                                  std::make_shared<OrdinalEncoder>(std::vector<std::string>{"z"}),
                                                  std::make_shared<SimpleImputer>(std::vector<std::string>{"z"})}) {
    EXPECT_THAT(error_of<ConfigError>([&] { one->fit(numbers()); }), HasSubstr("there is no column 'z'"));
    EXPECT_EQ(one->fit_status(), FitStatus::not_fitted);
  }
  // Those that push-down leaves are not all there are.
  EXPECT_EQ(error_of<ConfigError>([] { StandardScaler({"x"}).fit(numbers().drop_columns({"x"})); }),
            "StandardScaler: there is no column 'x'; there are same, y");
  EXPECT_EQ(error_of<ConfigError>([] { StandardScaler({"word"}).fit(words()); }),
            "StandardScaler: the column 'word' has string; wanted: numbers; make it numbers first, as with "
            "OrdinalEncoder or a cast, or leave it out");
  EXPECT_THAT(error_of<ConfigError>([] { SimpleImputer({"word"}).fit(words()); }),
              HasSubstr("SimpleImputer: the column 'word' has string; wanted: numbers; take the strategy"));
  EXPECT_THAT(error_of<ConfigError>([] { MinMaxScaler({"word"}).fit(words()); }), HasSubstr("wanted: numbers"));
  EXPECT_THAT(error_of<ConfigError>([] { MaxAbsScaler({"word"}).fit(words()); }),
              HasSubstr("MaxAbsScaler: the column 'word'"));
  EXPECT_THAT(error_of<ConfigError>([] { MinMaxScaler({"a", "b"}, {"b", "c"}); }), HasSubstr("'b'"));
  EXPECT_THAT(error_of<ConfigError>([] { MinMaxScaler({"a", "b"}, {"c"}); }), HasSubstr("one for each of 2 columns"));
}

// A cast would make numbers of texts that look like some.
TEST(Preprocessor, WhatIsNoNumberIsRefusedByTransform) {
  const std::vector<std::string> x = {"x"};
  for (const std::shared_ptr<Preprocessor>& one : std::vector<std::shared_ptr<Preprocessor>>{
           std::make_shared<StandardScaler>(x), std::make_shared<MinMaxScaler>(x), std::make_shared<MaxAbsScaler>(x),
           std::make_shared<SimpleImputer>(x), std::make_shared<StandardScaler>(x, std::vector<std::string>{"y"})}) {
    one->fit(rows_of({arrow::field("x", arrow::int64())}, "[[1], [2]]"));
    for (const auto& type : {arrow::utf8(), arrow::date32()}) {
      const Dataset others =
          rows_of({arrow::field("x", type)}, type->id() == arrow::Type::STRING ? R"([["7"]])" : "[[7]]");
      const std::string wanted = "the column 'x' has " + type->ToString() + "; wanted: numbers";
      EXPECT_THAT(error_of<ConfigError>([&] { one->transform(others).take(); }), HasSubstr(wanted));
      EXPECT_THAT(error_of<ConfigError>([&] { one->transform(others).schema(); }), HasSubstr(wanted));
      EXPECT_THAT(error_of<ConfigError>([&] { travelled(one->transform(others)).take(); }), HasSubstr(wanted));
    }
    EXPECT_EQ(one->transform(rows_of({arrow::field("x", arrow::decimal128(5, 2))}, R"([["1.50"]])")).count(), 1);
  }
}

// A shuffled stream of many blocks, in which each row stays with its own numbers.
TEST(Preprocessor, StreamsThroughTransform) {
  const Dataset rows = range(1000).repartition(13).with_columns({{"x", arrow::compute::field_ref("id")}});
  StandardScaler scaler({"x"}, {"scaled"});
  const Dataset made = Chain(scaler, Concatenator({"scaled"})).fit_transform(rows).random_shuffle({.seed = 5});
  const double std = std::sqrt((1000.0 * 1000 - 1) / 12);  // of the numbers 0 to 999, whose mean is 499.5
  const auto batch = travelled(made).take_all()->CombineChunksToBatch().ValueOrDie();
  const auto& ids = static_cast<const arrow::Int64Array&>(*batch->GetColumnByName("id"));
  const auto& arrays = static_cast<const arrow::FixedSizeListArray&>(*batch->GetColumnByName("concat_out"));
  const auto& values = static_cast<const arrow::DoubleArray&>(*arrays.values());
  ASSERT_EQ(ids.length(), 1000);
  for (int64_t row = 0; row < 1000; ++row) {
    EXPECT_NEAR(values.Value(row), (static_cast<double>(ids.Value(row)) - 499.5) / std, 1e-9);
  }
  EXPECT_NE(ids.Value(0), 0);
}

}  // namespace
}  // namespace paceline::data::preprocessors
