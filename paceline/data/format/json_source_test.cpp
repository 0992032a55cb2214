#include "paceline/data/format/json_source.h"

#include <arrow/json/from_string.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "paceline/data/source/source_testing_internal.h"

namespace paceline::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class JsonSourceTest : public FilesTest {
 protected:
  arrow::Result<std::unique_ptr<Source>> open(const std::vector<std::string>& paths, const JsonOptions& options = {}) {
    return json_source(file_system_, infos(paths), options);
  }
  static void expect_column(const arrow::Table& table, const std::string& name,
                            const std::shared_ptr<arrow::DataType>& type, const std::string& json) {
    const auto wanted = arrow::json::ArrayFromJSONString(type, json).ValueOrDie();
    const auto found = table.GetColumnByName(name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_TRUE(found->Equals(arrow::ChunkedArray(wanted))) << table.ToString();
  }
};

TEST_F(JsonSourceTest, LinesAreRows) {
  const auto source = open({write("a\xFF", "{\"n\": 1, \"s\": \"a\\nb\"}\r\n\n{\"s\": null, \"n\": null}\n"),
                            write("empty", ""), write("blank", "\n \n"), write("b", "{\"s\": \"c\"}")})
                          .ValueOrDie();
  const auto table = all_rows(*source);
  expect_column(*table, "n", arrow::int64(), "[1, null, null]");
  expect_column(*table, "s", arrow::utf8(), R"(["a\nb", null, "c"])");
}

TEST_F(JsonSourceTest, TypesOfEmptyColumnsAreFoundLater) {
  const auto table =
      all_rows(**open({write("a", "{\"n\": null, \"l\": [null]}\n"), write("b", "{\"n\": 1, \"l\": [2]}\n")}));
  expect_column(*table, "n", arrow::int64(), "[null, 1]");
  expect_column(*table, "l", arrow::list(arrow::int64()), "[[null], [2]]");
}

TEST_F(JsonSourceTest, ValuesInValues) {
  const auto table = all_rows(**open({write("a", "{\"l\": [1, 2], \"o\": {\"x\": 1.5}}\n{\"l\": []}\n")}));
  expect_column(*table, "l", arrow::list(arrow::int64()), "[[1, 2], []]");
  expect_column(*table, "o", arrow::struct_({arrow::field("x", arrow::float64())}), R"([{"x": 1.5}, null])");
}

TEST_F(JsonSourceTest, ChunksOfAnySizeHaveTheSameRows) {
  for (const std::string line_end : {"\n", "\r\n"}) {
    std::string text, wanted = "[";
    for (int i = 0; i < 30; ++i) {
      text += "{\"n\":" + std::to_string(i * 99) + "}" + (i < 29 ? line_end : "");
      wanted += (i > 0 ? "," : "") + std::to_string(i * 99);
    }
    const std::string path = write("a", text);
    for (const int64_t bytes : {1, 2, 3, 9, 10, 100, 1000}) {
      expect_column(*all_rows(**open({path}, {.chunk_bytes = bytes})), "n", arrow::int64(), wanted + "]");
    }
  }
}

TEST_F(JsonSourceTest, TypesAreThoseOfAllFilesOrGiven) {
  const std::string a = write("a", "{\"n\": 1}\n"), b = write("b", "{\"n\": 1.5}\n"), c = write("c", "{\"m\": 1}\n");
  const auto table = all_rows(**open({a, b, c}));
  expect_column(*table, "n", arrow::float64(), "[1, 1.5, null]");
  expect_column(*table, "m", arrow::int64(), "[null, null, 1]");
  const JsonOptions options = {.column_types = arrow::schema({arrow::field("n", arrow::float32())}),
                               .ignore_other_fields = true};
  expect_column(*all_rows(**open({a, b, c}, options)), "n", arrow::float32(), "[1, 1.5, null]");
  EXPECT_EQ(all_rows(**open({a, b, c}, options))->num_columns(), 1);
}

TEST_F(JsonSourceTest, ValuesOfDifferentKindsAreAnErrorOfBothFiles) {
  const std::string a = write("a", "{\"n\": 1}\n"), b = write("b", "{\"n\": \"x\"}\n");
  EXPECT_THAT(open({a, b}).status().message(),
              AllOf(HasSubstr("the column 'n' is int64 in " + a + " and string in " + b), HasSubstr("column_types")));
  const JsonOptions options = {.column_types = arrow::schema({arrow::field("n", arrow::int64())})};
  EXPECT_THAT(
      open({a, write("c", "{\"n\": 1.5}\n")}, options).ValueOrDie()->read(1, 0).status().message(),
      AllOf(HasSubstr("cannot read the JSON file"), HasSubstr("the column 'n' is double there; wanted: int64")));
}

TEST_F(JsonSourceTest, NestedValuesMayDiffer) {
  const auto table = all_rows(**open({write("a", R"({"o": {"x": 1, "l": []}, "s": "2020-01-01"})"),
                                      write("b", R"({"o": {"x": 0.5, "y": "z", "l": [1]}, "s": "soon"})")}));
  expect_column(*table, "o",
                arrow::struct_({arrow::field("x", arrow::float64()), arrow::field("l", arrow::list(arrow::int64())),
                                arrow::field("y", arrow::utf8())}),
                R"([{"x": 1, "l": [], "y": null}, {"x": 0.5, "l": [1], "y": "z"}])");
  expect_column(*table, "s", arrow::utf8(), R"(["2020-01-01", "soon"])");
}

TEST_F(JsonSourceTest, RowsMayBeNull) {
  const std::string path = write("a", "null\n{\"n\": 1}\nnull\n null \n{\"n\": 2}\nnull");
  for (const int64_t bytes : {1, 5, 12, 20, 1000}) {
    expect_column(*all_rows(**open({path}, {.chunk_bytes = bytes})), "n", arrow::int64(),
                  "[null, 1, null, null, 2, null]");
  }
  EXPECT_THAT(open({write("b", "null\n")}).status().message(), HasSubstr("no columns"));
  EXPECT_THAT(open({write("c", "nullify\n")}).status().message(), HasSubstr("cannot read the JSON file"));
  EXPECT_THAT(open({write("d", "null{\"n\": 1}\n")}).status().message(), HasSubstr("begins with null and goes on"));
  expect_column(*all_rows(**open({write("b", "null\n"), path})), "n", arrow::int64(),
                "[null, null, 1, null, null, 2, null]");
}

TEST_F(JsonSourceTest, CompressedFilesAreAChunk) {
  const std::string gz = write_compressed("a.json.zst", arrow::Compression::ZSTD, "{\"n\": 1}\n{\"n\": 2}\n");
  const auto source = open({gz}, {.chunk_bytes = 2}).ValueOrDie();
  EXPECT_EQ(source->chunks().size(), 1u);
  expect_column(*all_rows(*source), "n", arrow::int64(), "[1, 2]");
}

TEST_F(JsonSourceTest, ErrorsNameTheFile) {
  EXPECT_THAT(open({}).status().message(), HasSubstr("no JSON file was given"));
  const std::string empty = write("empty", "");
  EXPECT_THAT(open({empty}).status().message(), AllOf(HasSubstr(empty), HasSubstr("no columns")));
  EXPECT_EQ(all_rows(**open({empty}, {.column_types = arrow::schema({arrow::field("n", arrow::int8())})}))->num_rows(),
            0);
  const std::string cut = write("cut", "{\"n\": 1}\n{\"n\": ");
  EXPECT_THAT(open({cut}).status().message(), HasSubstr(cut));
  const std::string array = write("array", "[{\"n\": 1}]\n");
  EXPECT_THAT(open({array}).status().message(), HasSubstr(array));
  const std::string a = write("a", "{\"n\": 1}\n");
  const auto source = open({a, cut}).ValueOrDie();
  EXPECT_THAT(source->read(1, 0).status().message(), HasSubstr(cut));
  std::filesystem::resize_file(a, 3);
  EXPECT_THAT(source->read(0, 0).status().message(), AllOf(HasSubstr(a), HasSubstr("it has changed")));
}

// Arrow's parser would overflow the stack, and end the process.
TEST_F(JsonSourceTest, RowsThatAreNestedTooDeeplyAreErrors) {
  const auto nested = [](size_t levels, const std::string& between = "") {
    std::string text;
    for (size_t level = 0; level < levels; ++level) text += "[" + between;
    return "{\"a\": " + text + std::string(levels, ']') + "}\n";
  };
  const std::string quoted = "{\"a\": \"" + std::string(20'000, '[') + "\"}\n";
  EXPECT_TRUE(json_source(file_system_, infos({write("quoted.json", quoted)}), {}).ok());
  EXPECT_TRUE(
      json_source(file_system_, infos({write("flat.json", "{\"a\": [" + std::string(20'000, ' ') + "]}\n")}), {}).ok());
  for (const std::string& row : {nested(20'000), nested(20'000, "\n"), nested(600)}) {
    const std::string path = write("deep.json", row);
    EXPECT_THAT(json_source(file_system_, infos({path}), {}).status().message(),
                AllOf(HasSubstr("deep.json"), HasSubstr("the row at byte 0 is nested deeper than 500 levels")));
  }
  // Behind the first block, whose rows say what the columns are.
  std::string text;
  while (text.size() < size_t{2} << 20) text += "{\"a\": []}\nnull\n";
  const size_t place = text.size();
  const std::string path = write("later.json", text + nested(20'000));
  const auto source = json_source(file_system_, infos({path}), {}).ValueOrDie();
  EXPECT_THAT(source->read(static_cast<int64_t>(source->chunks().size()) - 1, 0).status().message(),
              AllOf(HasSubstr("later.json"), HasSubstr("the row at byte " + std::to_string(place) + " is nested")));
}

}  // namespace
}  // namespace paceline::data
