#include "paceline/launch/error_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "paceline/testing/temporary_folder.h"

namespace paceline::launch {
namespace {

TEST(ErrorFile, TellsTheException) {
  const auto failed =
      parse_error_file(R"({"message": {"message": "RuntimeError: no: such digit", "extraInfo": {"timestamp": "1"}}})");
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->kind, "RuntimeError");
  EXPECT_EQ(failed->text, "no: such digit");
  EXPECT_EQ(parse_error_file(R"({"message": "it is: over"})")->text, "it is: over");
}

TEST(ErrorFile, WhatIsNoneSaysNothing) {
  for (const char* text : {"", "torn {", "[]", "{}", R"({"message": 3})", R"({"message": {"message": null}})"}) {
    EXPECT_FALSE(parse_error_file(text)) << text;
  }
}

TEST(ErrorFile, IsInTheRunsFolderWhereThatIsSeen) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "logs");
  const ErrorFile here = error_file_of(folder.path(), {3});
  EXPECT_TRUE(here.path.starts_with(folder / "logs/")) << here.path;
  EXPECT_FALSE(here.is_temporary);
  const ErrorFile elsewhere = error_file_of("/no/such/run", {3});
  EXPECT_TRUE(elsewhere.path.starts_with(std::filesystem::temp_directory_path().string())) << elsewhere.path;
  EXPECT_TRUE(elsewhere.is_temporary);
}

}  // namespace
}  // namespace paceline::launch
