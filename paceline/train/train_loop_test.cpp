#include "paceline/train/train_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

int64_t calls = 0;
void plain() {
  ++calls;
}
void with_config(const Config& config) {
  calls += config.get<int64_t>("by");
}
Json returning() {
  return 7;
}
Json returning_with_config(const Config& config) {
  return config.get<int64_t>("by") + 1;
}
void elsewhere() {}

PACELINE_TRAIN_LOOP(plain);
PACELINE_TRAIN_LOOP(with_config);

TEST(TrainLoop, AllFourFormsCanBeCalled) {
  calls = 0;
  EXPECT_TRUE(TrainLoop(plain)({}).is_null());
  EXPECT_TRUE(TrainLoop(with_config)({{"by", 4}}).is_null());
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(TrainLoop(returning)({}), 7);
  EXPECT_EQ(TrainLoop(returning_with_config)({{"by", 4}}), 5);
}

TEST(TrainLoop, IsFoundByItsName) {
  EXPECT_EQ(train_loop_name(with_config), "with_config");
  EXPECT_EQ(find_train_loop("plain"), TrainLoop(plain));
}

TEST(TrainLoop, ErrorsSayWhatToWrite) {
  try {
    train_loop_name(elsewhere);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("PACELINE_TRAIN_LOOP"));
  }
  try {
    find_train_loop("nobody");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("registered: "));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("plain, with_config"));
  }
}

TEST(TrainLoop, TwoLoopsOfOneNameAreRefused) {
  EXPECT_THROW(register_train_loop("plain", elsewhere), ConfigError);
  EXPECT_NO_THROW(register_train_loop("plain", plain));
}

}  // namespace
}  // namespace paceline
