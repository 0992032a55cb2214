#include "paceline/core/sha256.h"

#include <gtest/gtest.h>

#include <fstream>

#include "paceline/testing/temporary_folder.h"

namespace paceline {
namespace {

constexpr const char* kOfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256Test, SumsAsSha256sumDoes) {
  EXPECT_EQ(sha256_of("").ValueOrDie(), kOfNothing);
  EXPECT_EQ(sha256_of("abc").ValueOrDie(), kOfAbc);
  Sha256 parts = Sha256::begin().ValueOrDie();
  parts.add("a");
  parts.add("bc");
  EXPECT_EQ(parts.hex(), kOfAbc);
}

TEST(Sha256Test, SumsFiles) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/file";
  std::ofstream(path) << "abc";
  EXPECT_EQ(sha256_of_file(path).ValueOrDie(), kOfAbc);
  const auto absent = sha256_of_file(path + "2");
  ASSERT_TRUE(absent.status().IsIOError());
  EXPECT_NE(absent.status().message().find(path + "2"), std::string::npos);
}

TEST(Sha256Test, TellsSumsFromOtherTexts) {
  EXPECT_TRUE(is_sha256(kOfAbc));
  EXPECT_FALSE(is_sha256(""));
  EXPECT_FALSE(is_sha256("../" + std::string(61, 'a')));
  EXPECT_FALSE(is_sha256(std::string(64, 'A')));
}

}  // namespace
}  // namespace paceline
