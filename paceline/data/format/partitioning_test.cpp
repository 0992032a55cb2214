#include "paceline/data/format/partitioning.h"

#include <arrow/json/from_string.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "paceline/data/plan/plan.h"
#include "paceline/data/source/source_testing_internal.h"

namespace paceline::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(Partitioning, ReadsFolders) {
  const auto hive = [](const std::string& path, const std::string& base_dir = "") {
    return *folder_values(path, {.folders = FolderStyle::hive, .base_dir = base_dir});
  };
  EXPECT_THAT(hive("/d/a=1/x/b=c%20d/f=g"), ElementsAre(Pair("a", "1"), Pair("b", "c d")));
  EXPECT_THAT(hive("a=1/f"), ElementsAre(Pair("a", "1")));
  EXPECT_THAT(hive("/=1/a=/f"), ElementsAre(Pair("a", "")));
  EXPECT_THAT(hive("f=1"), ElementsAre());
  EXPECT_THAT(hive("/a=1/d/b=2/f", "/a=1/d"), ElementsAre(Pair("b", "2")));
  EXPECT_THAT(hive("/a=1/other/b=2/f", "/a=1/d"), ElementsAre());
  EXPECT_THAT(hive("/a=1/f", "/a=1"), ElementsAre());
}

TEST(Partitioning, NamesFolders) {
  const PlaceOptions options{.folders = FolderStyle::named, .base_dir = "/d", .names = {"year", "country"}};
  EXPECT_THAT(*folder_values("/d/2024/costa%20rica/f", options),
              ElementsAre(Pair("year", "2024"), Pair("country", "costa rica")));
  EXPECT_THAT(folder_values("/d/2024/f", options).status().message(),
              HasSubstr("/d/2024/f has 1 folders below '/d/', and field_names has 2"));
}

class PartitioningTest : public FilesTest {
 protected:
  // CSV files of two rows in folders; their own column "k" is none of theirs.
  void SetUp() override {
    for (const char* name : {"y=2/k=a", "y=__HIVE_DEFAULT_PARTITION__/k=1", "z=1"}) {
      std::filesystem::create_directories(folder_ / name);
      write(std::string(name) + "/f.csv", "x,k\n1,9\n2,9\n");
    }
  }

  arrow::Result<std::shared_ptr<const Source>> open(const std::string& kind, Json options) {
    options["paths"] = {folder_.path()};
    ARROW_ASSIGN_OR_RAISE(const OpenPlan open, data::open(Plan{.kind = kind, .options = std::move(options)}));
    return open.source;
  }

  static std::vector<std::string> names_of(const arrow::Table& table) { return table.schema()->field_names(); }
};

TEST_F(PartitioningTest, FoldersAndPathsBecomeColumns) {
  const auto plain = open("read_csv", Json::object()).ValueOrDie();
  const auto source = open("read_csv", {{"partitioning", "hive"}, {"include_paths", true}}).ValueOrDie();
  EXPECT_NE(source->fingerprint(), plain->fingerprint());
  EXPECT_GT(source->chunks()[0].bytes, plain->chunks()[0].bytes);
  const auto rows = all_rows(*source);
  EXPECT_THAT(names_of(*rows), ElementsAre("x", "k", "y", "z", "path"));
  EXPECT_THAT(strings_of(*rows, 0), ElementsAre("1", "2", "1", "2", "1", "2"));
  EXPECT_THAT(strings_of(*rows, 1), ElementsAre("a", "a", "1", "1", "(null)", "(null)"));
  EXPECT_TRUE(rows->field(2)->type()->Equals(arrow::int64()));
  EXPECT_THAT(strings_of(*rows, 2), ElementsAre("2", "2", "(null)", "(null)", "(null)", "(null)"));
  EXPECT_THAT(strings_of(*rows, 3), ElementsAre("(null)", "(null)", "(null)", "(null)", "1", "1"));
  EXPECT_EQ(strings_of(*rows, 4)[5], folder_ / "z=1/f.csv");
}

TEST_F(PartitioningTest, ColumnsNameThoseOfFilesAndPlaces) {
  const auto some = all_rows(*open("read_csv", {{"partitioning", "hive"}, {"columns", {"y", "x"}}}).ValueOrDie());
  EXPECT_THAT(names_of(*some), ElementsAre("y", "x"));
  EXPECT_THAT(strings_of(*some, 1), ElementsAre("1", "2", "1", "2", "1", "2"));
  const auto places = all_rows(*open("read_csv", {{"partitioning", "hive"}, {"columns", {"z"}}}).ValueOrDie());
  EXPECT_THAT(names_of(*places), ElementsAre("z"));
  EXPECT_EQ(places->num_rows(), 6);
}

TEST_F(PartitioningTest, WholeFilesToo) {
  const auto rows =
      all_rows(*open("read_binary_files", {{"partitioning", "hive"}, {"include_paths", true}}).ValueOrDie());
  EXPECT_THAT(names_of(*rows), ElementsAre("bytes", "path", "y", "k", "z"));
  EXPECT_THAT(strings_of(*rows, 2), ElementsAre("2", "(null)", "(null)"));
}

TEST_F(PartitioningTest, Errors) {
  EXPECT_THAT(open("read_csv", {{"partitioning", "tree"}}).status().message(), HasSubstr("allowed: 'hive', 'dir'"));
  write("y=2/k=a/f.csv", "x,k,path\n1,9,a\n");
  EXPECT_THAT(open("read_csv", {{"include_paths", true}}).status().message(), HasSubstr("has one already"));
}

TEST_F(PartitioningTest, PathsThatAreNotUtf8) {
  const auto files = infos({write("a\xff\xc3\xa4", "x")});
  const auto numbers = arrow::RecordBatch::Make(arrow::schema({arrow::field("n", arrow::int8())}), 1,
                                                {arrow::json::ArrayFromJSONString(arrow::int8(), "[1]").ValueOrDie()});
  auto inner = memory_source(numbers->schema(), {numbers}).ValueOrDie();
  const auto places = columns_of_places(files, {.include_paths = true}).ValueOrDie();
  const auto source = with_columns_of_places(std::move(inner), places, std::nullopt).ValueOrDie();
  EXPECT_EQ(strings_of(*all_rows(*source), 1)[0], folder_ / "a\xEF\xBF\xBD\xc3\xa4");
}

}  // namespace
}  // namespace paceline::data
