// The tests' program is its own driver, and what its workers execute.
#include <gtest/gtest.h>
#include <paceline/paceline.h>

int main(int argc, char** argv) {
  paceline::init(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
