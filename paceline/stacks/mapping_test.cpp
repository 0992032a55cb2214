#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <sstream>

#include "paceline/stacks/mapping_internal.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::stacks {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string line(const std::string& places_and_permissions, const std::string& offset, const std::string& path) {
  return places_and_permissions + " " + offset + " 08:01 123                    " + path + "\n";
}

// "start-end path", in order.
std::vector<std::string> images_in(const std::string& maps) {
  std::vector<std::string> texts;
  for (const Image& image : images_of(Mappings(maps))) {
    std::ostringstream text;
    text << std::hex << image.start << '-' << image.end << ' ' << image.path;
    texts.push_back(text.str());
  }
  return texts;
}

// The segments of a library, at 0x7000 and behind.
std::string library(const std::string& path, const std::string& permissions = "r-xp") {
  return line("7000-8000 r--p", "00000000", path) + line("8000-9000 " + permissions, "00001000", path) +
         line("9000-a000 r--p", "00002000", path) + line("a000-b000 r--p", "00002000", path) +
         line("b000-c000 rw-p", "00003000", path);
}

std::string elf_file() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

TEST(Mapping, AnAddressIsFound) {
  const Mappings mappings(library("/lib/a.so") + line("d000-e000 rwxp", "00000000", ""));
  ASSERT_NE(mappings.find(0x8fff), nullptr);
  EXPECT_EQ(mappings.find(0x8fff)->offset, 0x1000u);
  EXPECT_TRUE(mappings.find(0x8fff)->is_code);
  EXPECT_EQ(mappings.find(0x8fff)->path, "/lib/a.so");
  EXPECT_EQ(mappings.find(0xd000)->path, "");
  for (const uint64_t nowhere : {0x6fff, 0xc000, 0xe000}) EXPECT_EQ(mappings.find(nowhere), nullptr);
  EXPECT_EQ(Mappings("").find(0), nullptr);
  EXPECT_EQ(Mappings("no line of it\n7000-\n").find(0), nullptr);
}

TEST(Mapping, AnImageHasAllSegmentsOfItsLibrary) {
  EXPECT_THAT(images_in(library("/lib/a.so")), ElementsAre("7000-c000 /lib/a.so"));
}

TEST(Mapping, AnImageWithoutALineOfItsHeadIsOneStill) {
  EXPECT_THAT(images_in(line("8000-9000 r-xp", "00001000", "/lib/a.so")), ElementsAre("8000-9000 /lib/a.so"));
}

// As those do who read a library's symbols.
TEST(Mapping, WhatElseIsMappedOfALibraryIsNoPartOfIt) {
  const std::string read = line("5000-7000 r--p", "00000000", "/lib/a.so");
  const std::string memory = line("4000-5000 rw-s", "00000000", "/memfd:arena (deleted)");
  const std::string behind = line("f0000000-f0001000 r--p", "00004000", "/lib/a.so");
  EXPECT_THAT(images_in(read + library("/lib/a.so")), ElementsAre("7000-c000 /lib/a.so"));
  EXPECT_THAT(images_in(read + memory + library("/lib/a.so")), ElementsAre("7000-c000 /lib/a.so"));
  EXPECT_THAT(images_in(library("/lib/a.so") + behind), ElementsAre("7000-c000 /lib/a.so"));
}

// Generated between two parts of one shared memory.
TEST(Mapping, CodeBetweenPartsOfAnotherFileMakesNoImageOfIt) {
  const std::string code = line("8000-9000 rwxp", "00000000", "");
  const std::string path = "/memfd:paceline-collective (deleted)";
  EXPECT_THAT(images_in(line("7000-8000 rw-s", "00000000", path) + code + line("9000-a000 rw-s", "00001000", path)),
              IsEmpty());
}

// As Intel's iodlr and `node --use-largepages` do it.
TEST(Mapping, CodeThatWasMovedIntoHugePagesIsOfItsImage) {
  const std::string path = elf_file();
  const auto moved_to = [&](const std::string& memory) {
    return line("7000-8000 r--p", "00000000", path) + line("8000-9000 r-xp", "00000000", memory) +
           line("9000-a000 rw-p", "00002000", path);
  };
  EXPECT_THAT(images_in(moved_to("")), ElementsAre("7000-a000 " + path));
  EXPECT_THAT(images_in(moved_to("/anon_hugepage (deleted)")), ElementsAre("7000-a000 " + path));
}

TEST(Mapping, APipeInPlaceOfAFileKeepsNobodyWaiting) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(images_in(line("7000-8000 r--p", "00000000", path) + line("8000-9000 r-xp", "00000000", "") +
                        line("9000-a000 rw-p", "00002000", path)),
              IsEmpty());
}

TEST(Mapping, ALibraryThatIsThereTwiceIsTwoImages) {
  EXPECT_THAT(images_in(library("/lib/a.so") + line("17000-18000 r--p", "00000000", "/lib/a.so") +
                        line("18000-19000 r-xp", "00001000", "/lib/a.so")),
              ElementsAre("7000-c000 /lib/a.so", "17000-19000 /lib/a.so"));
}

}  // namespace
}  // namespace paceline::stacks
