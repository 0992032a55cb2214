#include "paceline/storage/checksum.h"

#include <gtest/gtest.h>

#include <cstring>

#include "paceline/storage/local/durable.h"
#include "paceline/storage/local/file_writer.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::storage {
namespace {

using testing::TemporaryFolder;
using testing::write_file;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string long_text(size_t size) {
  std::string text(size, '\0');
  for (size_t at = 0; at < size; ++at) text[at] = static_cast<char>(at * 2654435761u >> 13);
  return text;
}

// From `xxhsum -H2` of the reference implementation.
TEST(Checksum, IsXxh3InItsCanonicalForm) {
  EXPECT_EQ(checksum_of(bytes("")), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(checksum_of(bytes("abc")), "06b05ab6733a618578af5f94892f3950");
}

TEST(Checksum, IsTheSameHoweverBytesArePutIn) {
  const std::string text = long_text(5000);
  Checksum checksum;
  for (size_t at = 0; at < text.size(); at += 77) checksum.update(bytes(std::string_view(text).substr(at, 77)));
  EXPECT_EQ(checksum.hex(), checksum_of(bytes(text)));
}

TEST(Checksum, OfAFileCoversAllOfIt) {
  const TemporaryFolder folder;
  const std::string text = long_text(2 * kPortion + 123);
  write_file(folder / "file", text);
  const FileSum sum = checksum_of_file(folder / "file").ValueOrDie();
  EXPECT_EQ(sum, (FileSum{.size = static_cast<int64_t>(text.size()), .checksum = checksum_of(bytes(text))}));
  EXPECT_TRUE(checksum_of_file(folder / "missing").status().IsIOError());
}

TEST(FileWriter, WritesAndSumsWholeAndParts) {
  const TemporaryFolder folder;
  const std::string large = long_text(3 * kPortion + 5);
  auto writer = FileWriter::create(folder / "file").ValueOrDie();
  Checksum part;
  ASSERT_TRUE(writer.append(bytes("head")).ok());
  ASSERT_TRUE(writer.append(bytes(large), &part).ok());
  std::vector<std::string> small(2000);
  for (size_t i = 0; i < small.size(); ++i) small[i] = std::to_string(i);
  for (const auto& text : small) ASSERT_TRUE(writer.append(bytes(text)).ok());
  const FileSum sum = writer.finish().ValueOrDie();

  std::string wanted = "head" + large;
  for (const auto& text : small) wanted += text;
  EXPECT_EQ(read_file(folder / "file").ValueOrDie(), wanted);
  EXPECT_EQ(sum, checksum_of_file(folder / "file").ValueOrDie());
  EXPECT_EQ(part.hex(), checksum_of(bytes(large)));
}

TEST(FileWriter, NeverWritesOverAFile) {
  const TemporaryFolder folder;
  write_file(folder / "file", "old");
  EXPECT_TRUE(FileWriter::create(folder / "file").status().IsIOError());
  EXPECT_TRUE(copy_file(folder / "file", folder / "file").status().IsIOError());
  EXPECT_EQ(read_file(folder / "file").ValueOrDie(), "old");
}

TEST(CopyFile, CopiesContentPermissionsAndGivesTheSum) {
  const TemporaryFolder folder;
  for (const size_t size : {size_t{0}, size_t{1}, kPortion, 2 * kPortion + 7}) {
    const std::string from = folder / ("from" + std::to_string(size));
    const std::string to = folder / ("to" + std::to_string(size));
    write_file(from, long_text(size));
    std::filesystem::permissions(from, std::filesystem::perms{0750});
    EXPECT_EQ(copy_file(from, to).ValueOrDie(), checksum_of_file(from).ValueOrDie());
    EXPECT_EQ(read_file(to).ValueOrDie(), long_text(size));
    EXPECT_EQ(std::filesystem::status(to).permissions(), std::filesystem::perms{0750});
  }
}

}  // namespace
}  // namespace paceline::storage
