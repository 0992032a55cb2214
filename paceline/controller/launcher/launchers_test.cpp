#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/controller/launcher/launcher.h"

namespace paceline::controller {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Launchers, AreKnownByName) {
  EXPECT_TRUE(check_launcher("local").ok());
  const arrow::Status unknown = check_launcher("slrum");
  EXPECT_TRUE(unknown.IsInvalid());
  EXPECT_THAT(unknown.message(), AllOf(HasSubstr("ScalingConfig.launcher is \"slrum\""), HasSubstr("\"local\"")));
}

}  // namespace
}  // namespace paceline::controller
