#include "paceline/collective/patience.h"

#include <gtest/gtest.h>

namespace paceline::collective {
namespace {

using std::chrono::seconds;

TEST(Patience, IsTenSecondsWhereOperationsAreQuick) {
  Patience patience;
  EXPECT_EQ(patience.with(Kind::all_reduce), seconds(10));
  for (int i = 0; i < 10; ++i) patience.note(Kind::all_reduce, std::chrono::milliseconds(30));
  EXPECT_EQ(patience.with(Kind::all_reduce), seconds(10));
}

TEST(Patience, IsFiveTimesTheSlowTailOfTheKindAndForgetsIt) {
  Patience patience;
  patience.note(Kind::all_reduce, seconds(60));
  EXPECT_EQ(patience.with(Kind::all_reduce), seconds(300));
  EXPECT_EQ(patience.with(Kind::barrier), seconds(10));
  for (int i = 0; i < 100; ++i) patience.note(Kind::all_reduce, seconds(1));
  EXPECT_LT(patience.with(Kind::all_reduce), seconds(120));
  for (int i = 0; i < 400; ++i) patience.note(Kind::all_reduce, seconds(1));
  EXPECT_LT(patience.with(Kind::all_reduce), seconds(11));
}

}  // namespace
}  // namespace paceline::collective
