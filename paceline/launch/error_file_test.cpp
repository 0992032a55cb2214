#include "paceline/launch/error_file.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace paceline::launch
