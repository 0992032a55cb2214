#include "paceline/data/operator/operator.h"

#include <arrow/json/from_string.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/data/operator/columns.h"
#include "paceline/data/operator/expression.h"

namespace paceline::data {
namespace {

namespace compute = arrow::compute;
using ::testing::HasSubstr;

std::shared_ptr<arrow::RecordBatch> block() {
  return arrow::RecordBatch::Make(
      arrow::schema({arrow::field("x", arrow::int64()), arrow::field("name", arrow::utf8())}), 4,
      {arrow::json::ArrayFromJSONString(arrow::int64(), "[1, 2, null, 4]").ValueOrDie(),
       arrow::json::ArrayFromJSONString(arrow::utf8(), R"(["a", "b", "c", "d"])").ValueOrDie()});
}

// What an operator gives, whose schema() has said so before.
std::shared_ptr<arrow::RecordBatch> applied(const Operator& step) {
  const auto result = step.apply(block(), 0).ValueOrDie();
  EXPECT_TRUE(step.schema(block()->schema()).ValueOrDie()->Equals(*result->schema()));
  EXPECT_EQ(step.schema(nullptr).ValueOrDie(), nullptr);
  return result;
}

TEST(Operators, ChooseAndRenameColumns) {
  EXPECT_EQ(applied(*select_columns({"name", "x"}))->schema()->field_names(), (std::vector<std::string>{"name", "x"}));
  EXPECT_EQ(applied(*drop_columns({"x"}))->schema()->field_names(), std::vector<std::string>{"name"});
  EXPECT_EQ(applied(*rename_columns({{"x", "y"}}))->schema()->field_names(), (std::vector<std::string>{"y", "name"}));
  EXPECT_EQ(select_columns({"name", "x"})->name(), "SelectColumns(name, x)");
}

TEST(Operators, NameColumnsThatAreMissing) {
  EXPECT_THAT(select_columns({"z"})->apply(block(), 0).status().message(),
              "SelectColumns(z): there is no column 'z'; there are x, name");
  EXPECT_THAT(drop_columns({"z"})->schema(block()->schema()).status().message(), HasSubstr("no column 'z'"));
  EXPECT_THAT(rename_columns({{"x", "name"}})->apply(block(), 0).status().message(),
              HasSubstr("two columns would be called 'name'"));
}

TEST(Operators, FilterKeepsWhatIsTrue) {
  const auto kept = applied(*filter(compute::greater(compute::field_ref("x"), compute::literal(1))));
  ASSERT_EQ(kept->num_rows(), 2) << "null is not true";
  EXPECT_EQ(kept->column(1)->ToString(), "[\n  \"b\",\n  \"d\"\n]");
  EXPECT_THAT(filter(compute::field_ref("x"))->schema(block()->schema()).status().message(),
              HasSubstr("is no condition: its values are int64"));
  EXPECT_EQ(filter(compute::field_ref("z"))->apply(block(), 0).status().message(),
            "Filter(z): there is no column 'z'; there are x, name");
}

TEST(Operators, WithColumnAddsAndReplaces) {
  const auto twice = compute::call("multiply", {compute::field_ref("x"), compute::literal(int64_t{2})});
  EXPECT_EQ(applied(*with_column("y", twice))->GetColumnByName("y")->ToString(), "[\n  2,\n  4,\n  null,\n  8\n]");
  EXPECT_EQ(applied(*with_column("x", compute::literal(int64_t{7})))->column(0)->ToString(),
            "[\n  7,\n  7,\n  7,\n  7\n]");
}

// Gives one row for a block, but says that it keeps all.
class Liar : public Operator {
 public:
  std::string name() const override { return "Liar"; }
  bool keeps_rows() const override { return true; }
  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const std::shared_ptr<arrow::Schema>&) const override {
    return nullptr;
  }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply(const std::shared_ptr<arrow::RecordBatch>& rows,
                                                           uint64_t) const override {
    return rows->Slice(0, 1);
  }
  uint64_t fingerprint() const override { return 0; }
};

TEST(Operators, ATransformedSourceIsCountedAndChecked) {
  const std::shared_ptr<const Source> rows = memory_source(block()->schema(), {block(), block()}).ValueOrDie();
  auto statistics = std::make_shared<OperatorStatistics>("Filter");
  const auto kept =
      transformed(rows, filter(compute::greater(compute::field_ref("x"), compute::literal(1))), statistics);
  EXPECT_FALSE(kept->counts_rows());
  EXPECT_EQ((*kept->read(1, 0))->num_rows(), 2);
  EXPECT_EQ(statistics->rows_in, 4);
  EXPECT_EQ(statistics->rows_out, 2);
  EXPECT_NE(kept->fingerprint(), rows->fingerprint());

  // What a function makes of no rows at all says which columns there are.
  const std::shared_ptr<const Source> nothing = memory_source(block()->schema(), {}).ValueOrDie();
  EXPECT_TRUE(
      transformed(nothing, std::make_shared<Liar>(), statistics)->schema().ValueOrDie()->Equals(*block()->schema()));

  const auto lies = transformed(rows, std::make_shared<Liar>(), statistics);
  EXPECT_EQ(lies->read(0, 0).status().message(), "Liar must give one row for each row, but gave 1 for 4");
}

}  // namespace
}  // namespace paceline::data
