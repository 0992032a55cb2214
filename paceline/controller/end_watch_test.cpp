#include "paceline/controller/end_watch.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace paceline::controller {
namespace {

using namespace std::chrono_literals;

TEST(EndWatch, SaysOnceWhichStepTakesLong) {
  std::promise<void> first, second;
  std::vector<std::string> said;
  EndWatch watch(
      [&](const std::string& step) {
        said.push_back(step);
        (said.size() == 1 ? first : second).set_value();
      },
      1ms);
  watch.enter("the journal");
  first.get_future().wait();
  watch.enter("the journal");
  watch.enter("the history");
  second.get_future().wait();
  EXPECT_EQ(said, (std::vector<std::string>{"the journal", "the history"}));
}

TEST(EndWatch, SaysNothingOfStepsThatEndInTime) {
  EndWatch watch([](const std::string& step) { ADD_FAILURE() << step; }, 1h);
  watch.enter("the journal");
  watch.enter("");
}

}  // namespace
}  // namespace paceline::controller
