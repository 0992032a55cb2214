#include "paceline/storage/local/line_reader.h"

#include <gmock/gmock.h>

#include <fstream>

#include "paceline/testing/temporary_folder.h"

namespace paceline::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> lines_of(LineReader& reader) {
  std::vector<std::string> lines;
  EXPECT_TRUE(reader
                  .read([&](std::string_view line) {
                    lines.emplace_back(line);
                    return arrow::Status::OK();
                  })
                  .ok());
  return lines;
}

TEST(LineReader, FollowsAGrowingFile) {
  const testing::TemporaryFolder folder;
  LineReader reader(folder / "lines");
  EXPECT_THAT(lines_of(reader), IsEmpty()) << "not there yet";
  std::ofstream file(folder / "lines");
  file << "one\n\ntw" << std::flush;
  EXPECT_THAT(lines_of(reader), ElementsAre("one", ""));
  EXPECT_EQ(reader.offset(), 5);
  EXPECT_THAT(lines_of(reader), IsEmpty()) << "\"tw\" is still being written";
  file << "o\nthree\n" << std::flush;
  EXPECT_THAT(lines_of(reader), ElementsAre("two", "three"));
  EXPECT_FALSE(reader.was_replaced());
}

TEST(LineReader, ReadsLinesLongerThanAPortion) {
  const testing::TemporaryFolder folder;
  const std::string lengthy(3'000'000, 'x');
  testing::write_file(folder / "lines", "a\n" + lengthy + "\nb\n");
  LineReader reader(folder / "lines");
  EXPECT_THAT(lines_of(reader), ElementsAre("a", lengthy, "b"));
}

TEST(LineReader, GivesPartsSideBySide) {
  const std::string lengthy(1'000'000, 'x');
  for (const std::string text :
       {"", "torn", "a\n", "a\nb\ntorn", "\n\n\n", "a\n", "one\ntwo\nthree\nfour\nfive\nsix\n"}) {
    for (const std::string middle : {"", "b\n"}) {
      const testing::TemporaryFolder folder;
      testing::write_file(folder / "lines", text + (middle.empty() ? "" : lengthy + middle + text));
      LineReader whole(folder / "lines"), parts(folder / "lines");
      const auto expected = lines_of(whole);
      std::vector<std::vector<std::string>> lines(4);
      std::vector<LineReader::Take> takes;
      for (auto& some : lines) {
        takes.emplace_back([&some](std::string_view line) {
          some.emplace_back(line);
          return arrow::Status::OK();
        });
      }
      ASSERT_TRUE(parts.read_in_parts(takes).ok());
      std::vector<std::string> given;
      for (const auto& some : lines) given.insert(given.end(), some.begin(), some.end());
      EXPECT_EQ(given, expected);
      EXPECT_EQ(parts.offset(), whole.offset());
      takes[2] = [](std::string_view) { return arrow::Status::IOError("full"); };
      LineReader failing(folder / "lines");
      const bool has_failed = !failing.read_in_parts(takes).ok();
      EXPECT_EQ(has_failed, !lines[2].empty());
      EXPECT_EQ(failing.offset(), has_failed ? 0 : whole.offset());
    }
  }
  LineReader missing("/missing/lines");
  EXPECT_EQ(missing.unread_bytes().ValueOrDie(), 0);
}

TEST(LineReader, GoesOnPieceByPieceUpToAByte) {
  const testing::TemporaryFolder folder;
  const std::string lengthy(3'000'000, 'x');
  testing::write_file(folder / "lines", "skipped\n" + lengthy + "\nb\nbehind\n");
  const auto end = static_cast<int64_t>(8 + lengthy.size() + 3);
  LineReader reader(folder / "lines", 8);
  std::vector<std::string> lines;
  const auto take = [&](std::string_view line) {
    lines.emplace_back(line);
    return arrow::Status::OK();
  };
  ASSERT_TRUE(reader.read_some(take, 8).ok());
  EXPECT_THAT(lines, IsEmpty());
  while (reader.offset() < end) ASSERT_TRUE(reader.read_some(take, end).ok());
  EXPECT_THAT(lines, ElementsAre(lengthy, "b"));
  EXPECT_EQ(reader.offset(), end);
  ASSERT_TRUE(reader.read_some(take).ok());
  EXPECT_THAT(lines, ElementsAre(lengthy, "b", "behind"));
}

TEST(LineReader, ALineThatIsRefusedComesAgain) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "lines", "good\nbad\n");
  LineReader reader(folder / "lines");
  const auto refuse = [](std::string_view line) {
    return line == "bad" ? arrow::Status::Invalid("bad") : arrow::Status::OK();
  };
  EXPECT_TRUE(reader.read(refuse).IsInvalid());
  EXPECT_THAT(lines_of(reader), ElementsAre("bad"));
}

TEST(LineReader, SeesThatTheFileIsAnotherOne) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "lines", "one\n");
  LineReader reader(folder / "lines");
  lines_of(reader);
  testing::write_file(folder / "other", "another\n");
  std::filesystem::rename(folder / "other", folder / "lines");
  EXPECT_TRUE(reader.was_replaced());
  LineReader shorter(folder / "lines");
  lines_of(shorter);
  std::filesystem::resize_file(folder / "lines", 0);
  EXPECT_TRUE(shorter.was_replaced());
}

TEST(LinesFromEnd, ComeFromTheLastWholeOneToTheFirst) {
  const testing::TemporaryFolder folder;
  const auto lines = [&](const std::string& text, size_t most = 100) {
    testing::write_file(folder / "lines", text);
    std::vector<std::string> lines;
    EXPECT_TRUE(read_lines_from_end(folder / "lines", [&](std::string_view line) {
                  lines.emplace_back(line);
                  return lines.size() < most;
                }).ok());
    return lines;
  };
  const std::string lengthy(3'000'000, 'x');
  EXPECT_THAT(lines("one\n\ntwo\nto"), ElementsAre("two", "", "one"));
  EXPECT_THAT(lines("one\n\ntwo\n", 2), ElementsAre("two", ""));
  EXPECT_THAT(lines("a\n" + lengthy + "\nb\n" + lengthy), ElementsAre("b", lengthy, "a"));
  EXPECT_THAT(lines("torn"), IsEmpty());
  EXPECT_THAT(lines(""), IsEmpty());
  EXPECT_THAT(lines("\n"), ElementsAre(""));
  EXPECT_TRUE(read_lines_from_end(folder / "none", [](std::string_view) { return true; }).ok());
}

}  // namespace
}  // namespace paceline::storage
