#include "paceline/data/plan/push_down.h"

#include <arrow/buffer.h>
#include <arrow/compute/expression.h>
#include <arrow/util/base64.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <filesystem>
#include <random>

#include "paceline/data/source/source_testing_internal.h"
#include "paceline/data/testing_internal.h"

namespace paceline::data {
namespace {

namespace cp = arrow::compute;
using ::testing::HasSubstr;
using ::testing::Not;
using Steps = std::vector<std::pair<std::string, Json>>;

Json encoded(const cp::Expression& expression) {
  return arrow::util::base64_encode(std::string_view(*cp::Serialize(expression).ValueOrDie()));
}

Json filter_by(const cp::Expression& expression) {
  return {{"expression", encoded(expression)}};
}

cp::Expression column(const std::string& name) {
  return cp::field_ref(name);
}

std::shared_ptr<const Plan> with_steps(std::shared_ptr<const Plan> plan, const Steps& steps) {
  for (const auto& [kind, options] : steps) {
    plan = std::make_shared<Plan>(Plan{.kind = kind, .options = options, .inputs = {plan}});
  }
  return plan;
}

// A file with the columns a, b, c, in row groups of ten rows; a and b grow, c does not.
class PushDownTest : public FilesTest {
 protected:
  void SetUp() override {
    std::vector<std::vector<int64_t>> columns(3);
    for (int64_t row = 0; row < 100; ++row) {
      columns[0].push_back(row);
      columns[1].push_back(row / 7);
      columns[2].push_back(row * 37 % 100);
    }
    arrow::FieldVector fields;
    arrow::ArrayVector arrays;
    for (size_t i = 0; i < columns.size(); ++i) {
      fields.push_back(arrow::field(std::string(1, static_cast<char>('a' + i)), arrow::int64()));
      arrays.push_back(numbers_of(columns[i])->column(0));
    }
    rows_ = arrow::RecordBatch::Make(arrow::schema(fields), 100, arrays);
    path_ = write_parquet("f.parquet", rows_);
  }

  std::string write_parquet(const std::string& name, const std::shared_ptr<arrow::RecordBatch>& rows) {
    const auto table = arrow::Table::FromRecordBatches({rows}).ValueOrDie();
    const auto out = arrow::io::FileOutputStream::Open(folder_ / name).ValueOrDie();
    EXPECT_TRUE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, 10).ok());
    EXPECT_TRUE(out->Close().ok());
    return folder_ / name;
  }

  std::shared_ptr<const Plan> file(Json options = Json::object()) const {
    options["paths"] = {path_};
    return std::make_shared<Plan>(Plan{.kind = "read_parquet", .options = std::move(options)});
  }
  // The same rows, which nothing can be pushed down to.
  std::shared_ptr<const Plan> memory() const { return std::make_shared<Plan>(Plan{.kind = "rows", .rows = {rows_}}); }

  static std::shared_ptr<arrow::Table> rows_of(const Plan& plan) {
    return all_rows(*data::open(plan).ValueOrDie().source);
  }
  static size_t chunks_of(const Plan& plan) { return data::open(plan).ValueOrDie().source->chunks().size(); }

  std::shared_ptr<arrow::RecordBatch> rows_;
  std::string path_;
};

TEST_F(PushDownTest, ReadsOnlyWhatIsWanted) {
  const auto plan = with_steps(file(), {{"filter", filter_by(cp::greater(column("a"), cp::literal(int64_t{75})))},
                                        {"with_column", {{"name", "d"}, {"expression", encoded(column("b"))}}},
                                        {"select_columns", {{"columns", {"d"}}}}});
  const std::string shown = explain(*plan);
  EXPECT_THAT(shown, HasSubstr("columns=[\"b\",\"a\"], filter=(a > 75))\n"));
  EXPECT_THAT(shown, HasSubstr("Filter((a > 75))\nWithColumn(d = b)\nSelectColumns(d)\n"));
  EXPECT_EQ(chunks_of(*plan), 3u) << "of ten row groups";
}

TEST_F(PushDownTest, ASelectionAloneIsTheReaders) {
  const auto plan = with_steps(file(), {{"select_columns", {{"columns", {"c", "a"}}}}});
  EXPECT_THAT(explain(*plan), Not(HasSubstr("SelectColumns")));
  EXPECT_EQ(data::open(*plan)->source->schema().ValueOrDie()->field_names(), (std::vector<std::string>{"c", "a"}));
  // One that the reader was told before stays an error.
  const auto narrow = with_steps(file({{"columns", {"a"}}}), {{"select_columns", {{"columns", {"b"}}}}});
  EXPECT_THAT(data::open(*narrow)->source->schema().status().message(), HasSubstr("no column 'b'; there are a"));
}

TEST_F(PushDownTest, FollowsNewNames) {
  const auto plan = with_steps(file(), {{"rename_columns", {{"names", {{"a", "b"}, {"b", "x"}}}}},
                                        {"drop_columns", {{"columns", {"c"}}}},
                                        {"filter", filter_by(cp::less(column("b"), cp::literal(int64_t{10})))}});
  EXPECT_THAT(explain(*plan), HasSubstr("filter=(a < 10))\n"));
  EXPECT_EQ(chunks_of(*plan), 1u);
}

TEST_F(PushDownTest, AFilterOfAMadeColumnStaysWhereItIs) {
  const auto plan = with_steps(file(), {{"with_column", {{"name", "a"}, {"expression", encoded(column("c"))}}},
                                        {"filter", filter_by(cp::less(column("a"), cp::literal(int64_t{10})))}});
  EXPECT_THAT(explain(*plan), Not(HasSubstr("filter=")));
  EXPECT_EQ(chunks_of(*plan), 10u);
}

TEST_F(PushDownTest, NothingPassesASlice) {
  const auto filter = filter_by(cp::less(column("a"), cp::literal(int64_t{10})));
  EXPECT_THAT(explain(*with_steps(file(), {{"range", {{"rows", 50}}}, {"filter", filter}})), Not(HasSubstr("filter=")));
  // The parts of a shuffled set are the same ones whatever is read of them.
  const auto part = with_steps(file(), {{"shuffle", {{"what", "rows"}, {"seed", 3}}},
                                        {"range", {{"rows", 50}}},
                                        {"select_columns", {{"columns", {"a"}}}}});
  EXPECT_THAT(explain(*part), Not(HasSubstr("columns=")));
}

TEST_F(PushDownTest, FilesAreLeftOutByTheirFolders) {
  for (const char* folder : {"y=1", "y=2", "y=text"}) {
    std::filesystem::create_directories(folder_ / "set" + ("/" + std::string(folder)));
    write_parquet("set/" + std::string(folder) + "/f.parquet", rows_);
  }
  const auto set = std::make_shared<Plan>(
      Plan{.kind = "read_parquet", .options = {{"paths", {folder_ / "set"}}, {"partitioning", "hive"}}});
  const auto of_folder = cp::equal(column("y"), cp::literal("2"));
  const auto of_rows = cp::less(column("a"), cp::literal(int64_t{20}));
  const auto both = with_steps(set, {{"filter", filter_by(cp::and_(of_folder, of_rows))}});
  EXPECT_EQ(chunks_of(*both), 2u);
  EXPECT_EQ(rows_of(*both)->num_rows(), 20);
  EXPECT_EQ(chunks_of(*with_steps(set, {{"filter", filter_by(cp::or_(of_folder, of_rows))}})), 30u)
      << "neither alone can tell";
  const auto none = with_steps(set, {{"filter", filter_by(cp::equal(column("y"), cp::literal("3")))}});
  EXPECT_EQ(rows_of(*none)->num_rows(), 0);
  EXPECT_EQ(rows_of(*none)->num_columns(), 4);
}

// Steps by chance, with columns that are there or not.
Steps random_steps(std::mt19937_64& random) {
  const auto name = [&] { return std::string(1, static_cast<char>('a' + random() % 4)); };
  const auto condition = [&] {
    const auto bound = cp::literal(static_cast<int64_t>(random() % 100));
    return random() % 2 == 0 ? cp::less(column(name()), bound) : cp::greater_equal(column(name()), bound);
  };
  Steps steps;
  for (size_t count = random() % 6; count > 0; --count) {
    switch (random() % 7) {
      case 0:
        steps.emplace_back("select_columns", Json{{"columns", {name(), name()}}});
        break;
      case 1:
        steps.emplace_back("drop_columns", Json{{"columns", {name()}}});
        break;
      case 2:
        steps.emplace_back("rename_columns", Json{{"names", {{name(), name()}}}});
        break;
      case 3:
        steps.emplace_back("with_column", Json{{"name", name()}, {"expression", encoded(column(name()))}});
        break;
      case 4:
        steps.emplace_back("range", Json{{"first", random() % 20}, {"rows", random() % 60}});
        break;
      case 5:
        steps.emplace_back("filter", filter_by(cp::and_(condition(), condition())));
        break;
      default:
        steps.emplace_back("filter", filter_by(cp::or_(condition(), condition())));
        break;
    }
  }
  return steps;
}

TEST_F(PushDownTest, TheRowsAreTheSame) {
  std::mt19937_64 random(1);
  int compared = 0;
  for (int i = 0; i < 400; ++i) {
    const Steps steps = random_steps(random);
    const auto expected = data::open(*with_steps(memory(), steps));
    if (!expected.ok() || !expected->source->schema().ok()) continue;
    SCOPED_TRACE(explain(*with_steps(file(), steps)));
    ASSERT_TRUE(rows_of(*with_steps(file(), steps))->Equals(*rows_of(*with_steps(memory(), steps))));
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace paceline::data
