#include <gtest/gtest.h>

#include "paceline/controller/launcher/launcher.h"
#include "paceline/core/config/scaling_config.h"

namespace paceline::controller {
namespace {

TEST(Launchers, AreWhatTheSettingMayBe) {
  ScalingConfig scaling;
  for (const std::string& name : launcher_names()) {
    scaling.engine = name;
    EXPECT_NO_THROW(scaling.validate()) << name;
  }
  scaling.engine = "slrum";
  EXPECT_ANY_THROW(scaling.validate());
}

}  // namespace
}  // namespace paceline::controller
