#include "paceline/core/bytes_text.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(BytesText, HasThreeDigitsAndTheUnitThatFits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(bytes_text(3'355'443), "3.2 MiB");
  EXPECT_EQ(bytes_text(15'247'133'900), "14.2 GiB");
  EXPECT_EQ(bytes_text(int64_t{146} << 30), "146 GiB");
}

TEST(BytesText, NeverRoundsUpTo1024) {
  EXPECT_EQ(bytes_text(1'073'741'823), "1.0 GiB");
  EXPECT_EQ(bytes_text((int64_t{1} << 20) - 600), "1023 KiB");
}

}  // namespace
}  // namespace paceline
