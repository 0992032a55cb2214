#include "paceline/controller/standard_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace paceline::controller {
namespace {

// Standard output becomes a pipe that is full and that nobody reads.
void fill_standard_output() {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  ::dup2(ends[1], STDOUT_FILENO);
  ::fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
  const std::string page(4096, 'x');
  while (::write(STDOUT_FILENO, page.data(), page.size()) > 0) {
  }
  ::fcntl(STDOUT_FILENO, F_SETFL, 0);
  std::setvbuf(stdout, nullptr, _IOFBF, page.size());  // as of a pipe
}

TEST(StandardOutputDeathTest, AReaderThatStandsStillHoldsUpNeitherPrintingNorTheEnd) {
  // Its child starts threads, so it must be a fresh process.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        fill_standard_output();
        Inbox inbox;
        for (int round = 0; round < 20; ++round) {
          std::printf("printed by a callback");
          StandardOutput output(inbox);
          output.write("written by a worker\n", {});
          std::printf(", with more\n");
        }
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace paceline::controller
