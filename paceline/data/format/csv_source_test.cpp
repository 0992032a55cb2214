#include "paceline/data/format/csv_source.h"

#include <arrow/json/from_string.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <random>

#include "paceline/data/source/source_testing_internal.h"

namespace paceline::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CsvSourceTest : public FilesTest {
 protected:
  arrow::Result<std::unique_ptr<Source>> open(const std::vector<std::string>& paths, const CsvOptions& options = {}) {
    return csv_source(file_system_, infos(paths), options);
  }
  static CsvOptions of_chunk(int64_t bytes) {
    CsvOptions options;
    options.chunk_bytes = bytes;
    return options;
  }
  static void expect_column(const arrow::Table& table, const std::string& name,
                            const std::shared_ptr<arrow::DataType>& type, const std::string& json) {
    const auto wanted = arrow::json::ArrayFromJSONString(type, json).ValueOrDie();
    const auto found = table.GetColumnByName(name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_TRUE(found->Equals(arrow::ChunkedArray(wanted))) << table.ToString();
  }
};

TEST_F(CsvSourceTest, LinesAreRows) {
  const auto source = open({write("a.csv", "x,y,s\n1,0.5,a\n,2,\n"), write("empty.csv", ""),
                            write("header.csv", "x,y,s\n"), write("b\xFF.csv", "s,x,y\r\nb,3,1")})
                          .ValueOrDie();
  const auto table = all_rows(*source);
  expect_column(*table, "x", arrow::int64(), "[1, null, 3]");
  expect_column(*table, "y", arrow::float64(), "[0.5, 2, 1]");
  expect_column(*table, "s", arrow::utf8(), R"(["a", "", "b"])");
  EXPECT_FALSE(source->counts_rows());
}

TEST_F(CsvSourceTest, ChunksOfAnySizeHaveTheSameRows) {
  for (const std::string line_end : {"\n", "\r\n"}) {
    std::string text = "n,s" + line_end, wanted = "[";
    for (int i = 0; i < 50; ++i) {
      text += std::to_string(i) + "," + std::string(static_cast<size_t>(i) % 7, 'x') + (i < 49 ? line_end : "");
      wanted += (i > 0 ? "," : "") + std::to_string(i);
    }
    const std::string path = write("a.csv", text);
    for (const int64_t bytes : {1, 2, 3, 5, 16, 100, 1000}) {
      const auto source = open({path}, of_chunk(bytes)).ValueOrDie();
      expect_column(*all_rows(*source), "n", arrow::int64(), wanted + "]");
    }
  }
}

TEST_F(CsvSourceTest, QuotedLineBreaksEndNoRow) {
  const std::string path = write("a.csv", "n,s\n1,\"a\nb\"\n2,\"c,\r\nd\"\n3,\"\"\"\n\"\n4,5\" wide\n5,\"\"\n");
  for (int64_t bytes = 4; bytes < 50; ++bytes) {
    const auto source = open({path}, of_chunk(bytes)).ValueOrDie();
    EXPECT_THAT(strings_of(*all_rows(*source), 1), ElementsAre("a\nb", "c,\r\nd", "\"\n", "5\" wide", "")) << bytes;
  }
}

// Fields by chance, cut anywhere.
TEST_F(CsvSourceTest, QuotedFilesAreCutBetweenRows) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 30; ++i) {
    std::string text = "s,n\n";
    std::vector<std::string> expected;
    for (int row = 0; row < 40; ++row) {
      std::string value;
      for (size_t size = random() % 12; size > 0; --size) value += "ab,\n\"\r "[random() % 7];
      std::string quoted;
      for (const char byte : value) quoted += byte == '"' ? "\"\"" : std::string(1, byte);
      text += "\"" + quoted + "\"," + std::to_string(row) + (random() % 2 == 0 ? "\r\n" : "\n");
      expected.push_back(std::move(value));
    }
    CsvOptions options = of_chunk(30 + static_cast<int64_t>(random() % 200));
    options.parse.newlines_in_values = random() % 2 == 0;
    options.convert.column_types["s"] = arrow::utf8();
    const auto source = open({write("a.csv", text)}, options).ValueOrDie();
    ASSERT_GT(source->chunks().size(), 1u);
    ASSERT_EQ(strings_of(*all_rows(*source), 0), expected);
  }
}

// So that the first block ends in the quotes of a field, wherever that is.
TEST_F(CsvSourceTest, TheFirstBlockMayEndInQuotes) {
  std::string text = "n,s\n";
  int64_t rows = 0;
  for (; text.size() < (3 << 20); ++rows) text += "1,\"" + std::string(300, 'x') + std::string(100, '\n') + "\"\n";
  const auto source = open({write("a.csv", text)}).ValueOrDie();
  EXPECT_EQ(all_rows(*source)->num_rows(), rows);
  EXPECT_NEAR(static_cast<double>(source->chunks()[0].rows), static_cast<double>(rows), 10);
}

TEST_F(CsvSourceTest, QuotesWithoutLineBreaksNeedNoSecondReading) {
  CsvOptions options = of_chunk(8);
  options.cut_quoted = true;
  const auto source = open({write("a.csv", "n,s\n1,\"a,b\"\n2,\"c\"\n3,d\n")}, options).ValueOrDie();
  EXPECT_GT(source->chunks().size(), 1u);
  EXPECT_THAT(strings_of(*all_rows(*source), 1), ElementsAre("a,b", "c", "d"));
}

TEST_F(CsvSourceTest, QuotesMayComeLater) {
  std::string text = "n,s\n";
  while (text.size() < (2 << 20)) text += "1,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n";
  text += "2,\"a\nb\"\n";
  const auto source = open({write("a.csv", text)}, of_chunk(1 << 20)).ValueOrDie();
  ASSERT_GT(source->chunks().size(), 1u);
  EXPECT_EQ(strings_of(*all_rows(*source), 1).back(), "a\nb");
}

TEST_F(CsvSourceTest, TypesAreThoseOfAllFilesOrGiven) {
  const std::string a = write("a.csv", "x,y\n1,1\n"), b = write("b.csv", "x,y\n1.5,2\n");
  const auto source = open({a, b}).ValueOrDie();
  expect_column(*all_rows(*source), "x", arrow::float64(), "[1, 1.5]");
  expect_column(*all_rows(*source), "y", arrow::int64(), "[1, 2]");
  CsvOptions options;
  options.convert.column_types["x"] = arrow::float32();
  const auto given = open({a, b}, options).ValueOrDie();
  expect_column(*all_rows(*given), "x", arrow::float32(), "[1, 1.5]");
  EXPECT_NE(source->fingerprint(), given->fingerprint());
}

TEST_F(CsvSourceTest, AValueThatDoesNotFitIsAnErrorOfFileAndColumn) {
  const std::string a = write("a.csv", "x,y\n1,1\n"), b = write("b.csv", "y,x\n2,1.5\n");
  CsvOptions options;
  options.convert.column_types["x"] = arrow::int64();
  EXPECT_THAT(open({a, b}, options).ValueOrDie()->read(1, 0).status().message(),
              AllOf(HasSubstr("cannot read the CSV file " + b), HasSubstr("1.5"),
                    HasSubstr("the column 'x' is double there; wanted: int64"), HasSubstr("column_types")));
}

// As though the files were one.
TEST_F(CsvSourceTest, FilesMayDiffer) {
  ::testing::internal::CaptureStderr();
  const auto table = all_rows(**open({
      write("a.csv", "i,none,s,d,left\n1,,1,2020-01-01,1\n"),
      write("b.csv", "d,i,none,s,new\n2020-01-02 01:00:00,0.5,7,x,true\n"),
      write("names.csv", "s,i\n"),
  }));
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("the column 's' is int64 in"), HasSubstr("a.csv and string in"), HasSubstr("column_types")));
  EXPECT_THAT(table->schema()->field_names(), ElementsAre("i", "none", "s", "d", "left", "new"));
  expect_column(*table, "i", arrow::float64(), "[1, 0.5]");
  expect_column(*table, "none", arrow::int64(), "[null, 7]");
  expect_column(*table, "s", arrow::utf8(), R"(["1", "x"])");
  expect_column(*table, "d", arrow::timestamp(arrow::TimeUnit::SECOND), R"(["2020-01-01", "2020-01-02 01:00:00"])");
  expect_column(*table, "left", arrow::int64(), "[1, null]");
  expect_column(*table, "new", arrow::boolean(), "[null, true]");
}

TEST_F(CsvSourceTest, ChosenColumnsMayBeInAnyFile) {
  const std::string a = write("a.csv", "x,y\n1,2\n"), b = write("b.csv", "x,z\n3,4\n");
  CsvOptions options;
  options.convert.include_columns = {"z", "x"};
  const auto table = all_rows(**open({a, b}, options));
  expect_column(*table, "z", arrow::int64(), "[null, 4]");
  expect_column(*table, "x", arrow::int64(), "[1, 3]");
  options.convert.include_columns = {"w"};
  EXPECT_THAT(open({a, b}, options).status().message(),
              AllOf(HasSubstr("no CSV file has a column 'w'"), HasSubstr("z")));
  EXPECT_THAT(open({a, write("c.csv", "5,6\n7,8\n")}).status().message(),
              AllOf(HasSubstr("c.csv has none of the columns"), HasSubstr("the line with their names")));
}

// Beyond what is looked at, a difference is an error where its rows are due.
TEST_F(CsvSourceTest, OfVeryManyFilesSomeAreLookedAt) {
  std::vector<std::string> paths(2050, write("a.csv", "x\n1\n"));
  paths[1] = write("b.csv", "x,y\n1,2\n");
  paths[3] = write("c.csv", "x\n0.5\n");
  const auto source = open(paths).ValueOrDie();
  ASSERT_TRUE(source->schema().ValueOrDie()->Equals(arrow::schema({arrow::field("x", arrow::int64())})));
  EXPECT_TRUE(source->read(0, 0).ok());
  EXPECT_THAT(source->read(1, 0).status().message(), AllOf(HasSubstr(paths[1]), HasSubstr("a column 'y'")));
  EXPECT_THAT(source->read(3, 0).status().message(),
              AllOf(HasSubstr(paths[3]), HasSubstr("the column 'x' is double there; wanted: int64")));
}

TEST_F(CsvSourceTest, TypesMayBeFoundFarDown) {
  std::string text = "n\n";
  while (text.size() < (4 << 20)) text += "1234567\n";
  EXPECT_TRUE(open({write("a.csv", text + "0.5\n")})
                  .ValueOrDie()
                  ->schema()
                  .ValueOrDie()
                  ->field(0)
                  ->type()
                  ->Equals(arrow::float64()));
}

TEST_F(CsvSourceTest, TypesOfEmptyColumnsAreFoundLater) {
  std::string text = "n,s,never\n";
  while (text.size() < (2 << 20)) text += ",aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,\n";
  text += "2.5,b,\n";
  const auto source = open({write("a.csv", text), write("b.csv", "n,s,never\n3,c,\n")}).ValueOrDie();
  EXPECT_TRUE(source->schema().ValueOrDie()->field(0)->type()->Equals(arrow::float64()));
  EXPECT_EQ(strings_of(*all_rows(*source), 0).back(), "3");
  EXPECT_TRUE(source->schema().ValueOrDie()->field(2)->type()->Equals(arrow::null()));
}

TEST_F(CsvSourceTest, OptionsAreInTheFingerprint) {
  const std::string path = write("a.csv", "n\n1\n");
  CsvOptions other;
  other.parse.delimiter = ';';
  EXPECT_NE(open({path}).ValueOrDie()->fingerprint(), open({path}, other).ValueOrDie()->fingerprint());
}

TEST_F(CsvSourceTest, ColumnsMayBeChosenAndNamed) {
  CsvOptions options = of_chunk(4);
  options.read.column_names = {"p", "q"};
  options.convert.include_columns = {"q"};
  options.parse.delimiter = ';';
  const auto table = all_rows(**open({write("a.csv", "1;2\n3;4\n5;6")}, options));
  EXPECT_EQ(table->num_columns(), 1);
  expect_column(*table, "q", arrow::int64(), "[2, 4, 6]");
  CsvOptions generated = of_chunk(4);
  generated.read.autogenerate_column_names = true;
  expect_column(*all_rows(**open({write("a.csv", "1,2\n3,4\n")}, generated)), "f1", arrow::int64(), "[2, 4]");
}

TEST_F(CsvSourceTest, SkippedLinesAreThoseOfTheFilesBeginning) {
  CsvOptions options = of_chunk(14);
  options.read.skip_rows = 1;
  options.read.skip_rows_after_names = 1;
  const auto source = open({write("a.csv", "note\nx\nunit\n1\n2\n3\n4\n5\n6\n")}, options).ValueOrDie();
  EXPECT_GT(source->chunks().size(), 1u);
  expect_column(*all_rows(*source), "x", arrow::int64(), "[1, 2, 3, 4, 5, 6]");
}

TEST_F(CsvSourceTest, CompressedFilesAreAChunk) {
  const std::string gz = write_compressed("a.csv.gz", arrow::Compression::GZIP, "x,s\n1,\"a\nb\"\n2,c\n");
  const auto source = open({gz}, of_chunk(2)).ValueOrDie();
  EXPECT_EQ(source->chunks().size(), 1u);
  expect_column(*all_rows(*source), "x", arrow::int64(), "[1, 2]");
  std::filesystem::resize_file(gz, 15);
  EXPECT_THAT(open({gz}).status().message(), HasSubstr(gz));
}

TEST_F(CsvSourceTest, ErrorsNameTheFile) {
  EXPECT_THAT(open({}).status().message(), HasSubstr("no CSV file was given"));
  const std::string empty = write("empty.csv", "");
  EXPECT_THAT(open({empty}).status().message(), AllOf(HasSubstr("no CSV file has a line"), HasSubstr(empty)));
  EXPECT_THAT(open({write("twice.csv", "x,x\n1,2\n")}).status().message(),
              AllOf(HasSubstr("twice.csv"), HasSubstr("two columns are called 'x'")));
  const std::string torn = write("torn.csv", "x,y\n1,2\n3\n");
  EXPECT_THAT(open({torn}).status().message(), HasSubstr(torn));
  const std::string a = write("a.csv", "x,y\n1,2\n");
  EXPECT_THAT(open({a, write("twice.csv", "x,x\n1,2\n")}).status().message(),
              AllOf(HasSubstr("twice.csv"), HasSubstr("called 'x'")));
  const auto source = open({a}).ValueOrDie();
  write("a.csv", "x,y\n1,2");
  EXPECT_THAT(source->read(0, 0).status().message(), AllOf(HasSubstr(a), HasSubstr("it has changed")));
}

}  // namespace
}  // namespace paceline::data
