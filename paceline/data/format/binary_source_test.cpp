#include "paceline/data/format/binary_source.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "paceline/data/source/source_testing_internal.h"

namespace paceline::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BinarySourceTest : public FilesTest {
 protected:
  arrow::Result<std::unique_ptr<Source>> open(const std::vector<std::string>& paths,
                                              const BinaryOptions& options = {}) {
    return binary_source(file_system_, infos(paths), options);
  }

  static std::vector<std::string> bytes_of(const arrow::Table& table) {
    std::vector<std::string> all;
    const auto array = std::static_pointer_cast<arrow::LargeBinaryArray>(table.column(0)->chunk(0));
    for (int64_t i = 0; i < array->length(); ++i) all.push_back(array->GetString(i));
    return all;
  }
};

TEST_F(BinarySourceTest, EachFileIsARow) {
  const std::string zeros("\0\xFF\0", 3);
  const auto source = open({write("a", "one"), write("b", ""), write("c\xFF", zeros)}).ValueOrDie();
  ASSERT_EQ(source->chunks().size(), 1u);
  EXPECT_EQ(source->chunks()[0].bytes, 6);
  EXPECT_THAT(bytes_of(*all_rows(*source)), ElementsAre("one", "", zeros));
}

TEST_F(BinarySourceTest, ChunksTakeFilesUntilTheyAreFull) {
  std::vector<std::string> paths;
  for (int i = 0; i < 10; ++i) paths.push_back(write(std::to_string(i), std::string(10, static_cast<char>('0' + i))));
  const auto source = open(paths, {.include_paths = true, .chunk_bytes = 25}).ValueOrDie();
  ASSERT_EQ(source->chunks().size(), 4u);
  EXPECT_EQ(source->chunks()[0].rows, 3);
  EXPECT_EQ(source->chunks()[3].rows, 1);
  EXPECT_EQ(strings_of(*all_rows(*source), 1), paths);
  EXPECT_EQ(bytes_of(*all_rows(*source))[9], "9999999999");
  EXPECT_NE(source->fingerprint(), open(paths)->get()->fingerprint());
}

TEST_F(BinarySourceTest, ErrorsNameTheFile) {
  EXPECT_THAT(open({}).status().message(), HasSubstr("no binary file was given"));
  EXPECT_THAT(open({write("\xFF", "x")}, {.include_paths = true}).status().message(), HasSubstr("not UTF-8"));
  const std::string path = write("a", "one");
  const auto source = open({write("b", "two"), path}).ValueOrDie();
  std::filesystem::resize_file(path, 1);
  EXPECT_THAT(source->read(0, 0).status().message(), AllOf(HasSubstr(path), HasSubstr("it has changed")));
  std::filesystem::remove(path);
  EXPECT_THAT(source->read(0, 0).status().message(), HasSubstr("cannot read the binary file " + path));
}

}  // namespace
}  // namespace paceline::data
