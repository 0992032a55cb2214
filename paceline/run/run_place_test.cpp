#include "paceline/run/run_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::run {
namespace {

using ::testing::MatchesRegex;
using ::testing::StartsWith;

TEST(NewRunName, BeginsWithTheProgramAndIsUnique) {
  const std::string first = new_run_name("/home/me/train_mnist.py");
  EXPECT_THAT(first, MatchesRegex("train_mnist_[0-9]{4}-[0-9]{2}-[0-9]{2}_[0-9]{2}-[0-9]{2}-[0-9]{2}_[0-9a-f]{8}"));
  EXPECT_NE(first, new_run_name("/home/me/train_mnist.py"));
}

TEST(NewRunName, IsAWordWhateverTheProgramIsCalled) {
  EXPECT_THAT(new_run_name("build/my training (new)"), StartsWith("my_training__new__20"));
  EXPECT_THAT(new_run_name("my.package.train"), StartsWith("my.package.train_20"));
  EXPECT_THAT(new_run_name("Übung.ipynb"), StartsWith("Übung_20"));
  EXPECT_THAT(new_run_name("-c"), StartsWith("c_20"));
  EXPECT_THAT(new_run_name(".hidden"), StartsWith("hidden_20"));
  for (const char* nothing : {"", "/", ".", "...", ".py"}) EXPECT_THAT(new_run_name(nothing), StartsWith("run_20"));
  EXPECT_LT(new_run_name(std::string(500, 'a')).size(), 100U);
  EXPECT_THAT(new_run_name(std::string(59, 'a') + "ü"), StartsWith(std::string(59, 'a') + "_20"));
}

}  // namespace
}  // namespace paceline::run
