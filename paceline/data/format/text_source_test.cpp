#include "paceline/data/format/text_source.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "paceline/data/format/line_ranges_internal.h"
#include "paceline/data/source/source_testing_internal.h"

namespace paceline::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TextSourceTest : public FilesTest {
 protected:
  arrow::Result<std::unique_ptr<Source>> open(const std::vector<std::string>& paths, const TextOptions& options = {}) {
    return text_source(file_system_, infos(paths), options);
  }
};

TEST_F(TextSourceTest, EachLineIsARow) {
  const auto source =
      open({write("a", "one\ntwo\r\n\n\xC3\xA9 \n"), write("empty", ""), write("b", "last")}).ValueOrDie();
  EXPECT_THAT(strings_of(*all_rows(*source)), ElementsAre("one", "two", "\xC3\xA9 ", "last"));
  EXPECT_EQ(source->chunks().back().file, 2);
  const auto with_empty = open({write("a", "\xEF\xBB\xBF\n\nx\n\n")}, {.drop_empty_lines = false}).ValueOrDie();
  EXPECT_THAT(strings_of(*all_rows(*with_empty)), ElementsAre("", "", "x", ""));
}

// Whatever the size of a chunk, each line is in one of them, at the place where it begins.
TEST_F(TextSourceTest, ChunksOfAnySizeHaveTheSameLines) {
  for (const std::string end : {"\n", "\r\n", ""}) {
    const std::string path = write("a", "a\nbb\n\nccc\nd\ne" + end);
    for (int64_t bytes = 1; bytes < 20; ++bytes) {
      EXPECT_THAT(strings_of(*all_rows(*open({path}, {.chunk_bytes = bytes}).ValueOrDie())),
                  ElementsAre("a", "bb", "ccc", "d", "e"))
          << bytes;
    }
  }
}

TEST_F(TextSourceTest, ALineMayBeLongerThanWhatIsReadAtOnce) {
  const std::string line(3'000'000, 'x');
  const std::string path = write("a", "a\n" + line + "\nb\n" + line);
  for (const int64_t bytes : {100'000, 2'999'999, 3'000'003, 10'000'000}) {
    EXPECT_THAT(strings_of(*all_rows(*open({path}, {.chunk_bytes = bytes}).ValueOrDie())),
                ElementsAre("a", line, "b", line));
  }
}

TEST_F(TextSourceTest, CompressedFilesAreAChunk) {
  const std::vector<std::pair<std::string, arrow::Compression::type>> all = {{"a.gz", arrow::Compression::GZIP},
                                                                             {"a.ZST", arrow::Compression::ZSTD},
                                                                             {"a.txt.bz2", arrow::Compression::BZ2},
                                                                             {"a.lz4", arrow::Compression::LZ4_FRAME}};
  for (const auto& [name, type] : all) {
    const auto source = open({write_compressed(name, type, "one\ntwo\n")}, {.chunk_bytes = 2}).ValueOrDie();
    EXPECT_EQ(source->chunks().size(), 1u);
    EXPECT_THAT(strings_of(*all_rows(*source)), ElementsAre("one", "two"));
  }
  std::string text(1000, 'x');
  text += "\ny\n";
  const std::string path = write_compressed("t.gz", arrow::Compression::GZIP, text);
  std::filesystem::resize_file(path, 20);
  EXPECT_THAT(open({path}).status().message(), HasSubstr("cannot read the text file " + path));
  EXPECT_THAT(open({write("empty.gz", "")}).status().message(), HasSubstr("empty.gz"));
}

TEST_F(TextSourceTest, WithoutALineThereIsNoRow) {
  const auto source = open({write("a", ""), write_compressed("b.gz", arrow::Compression::GZIP, "")}).ValueOrDie();
  EXPECT_EQ(all_rows(*source)->num_rows(), 0);
}

TEST_F(TextSourceTest, RowsAreEstimated) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "0123456789\n";
  const auto source = open({write("a", text)}, {.chunk_bytes = 11'000}).ValueOrDie();
  ASSERT_EQ(source->chunks().size(), 10u);
  EXPECT_EQ(source->chunks()[0].rows, 1000);
  EXPECT_FALSE(source->counts_rows());
}

TEST_F(TextSourceTest, ErrorsNameTheFile) {
  EXPECT_THAT(open({}).status().message(), HasSubstr("no text file was given"));
  EXPECT_THAT(open({folder_ / "none"}).status().message(), AllOf(HasSubstr(folder_ / "none"), HasSubstr("not exist")));
  EXPECT_THAT(open({folder_.path()}).status().message(), HasSubstr("it is no file"));
  const std::string latin = write("latin", "caf\xE9\n");
  EXPECT_THAT(open({latin}).ValueOrDie()->read(0, 0).status().message(), AllOf(HasSubstr(latin), HasSubstr("UTF-8")));
  EXPECT_FALSE(open({latin}, {.chunk_bytes = 0}).ok());
  const std::string path = write("a", "one\ntwo\n");
  const auto source = open({path}).ValueOrDie();
  std::filesystem::resize_file(path, 5);
  EXPECT_THAT(source->read(0, 0).status().message(), AllOf(HasSubstr(path), HasSubstr("it has changed")));
}

TEST_F(TextSourceTest, TheFingerprintIsOfFilesAndChunks) {
  const std::string a = write("a\xFF", "one\ntwo\n"), b = write("b", "one\ntwo\n");
  const uint64_t print = open({a})->get()->fingerprint();
  EXPECT_EQ(print, open({a})->get()->fingerprint());
  EXPECT_NE(print, open({b})->get()->fingerprint());
  EXPECT_NE(print, open({a}, {.chunk_bytes = 4})->get()->fingerprint());
}

TEST_F(TextSourceTest, AFileThatIsWrittenAgainIsAnErrorEvenIfItIsAsLong) {
  const std::string path = write("a.txt", "old");
  const auto source = text_source(file_system_, infos({path}), {}).ValueOrDie();
  write("a.txt", "new");
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(5));
  EXPECT_THAT(source->read(0, 0).status().message(), AllOf(HasSubstr(path), HasSubstr("has been written again")));
  std::filesystem::remove(path);
  EXPECT_FALSE(source->read(0, 0).ok());
}

}  // namespace
}  // namespace paceline::data
