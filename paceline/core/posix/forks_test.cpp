#include "paceline/core/posix/forks.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <mutex>

#include "paceline/core/posix/connections_of_forks.h"
#include "paceline/testing/in_fork.h"

namespace paceline {
namespace {

using testing::holds_in_fork;

TEST(Forks, HaveValuesOfTheirOwn) {
  PerProcess<std::pair<std::mutex, int>> value;
  const std::lock_guard lock(value->first);
  value->second = 7;
  EXPECT_TRUE(holds_in_fork([&] {
    const std::lock_guard own(value->first);  // which nobody holds there
    return std::exchange(value->second, 8) == 0 && value->second == 8;
  }));
  EXPECT_EQ(value->second, 7);
}

struct Ending {
  explicit Ending(bool& told) : has_ended(told) {}
  ~Ending() { has_ended = true; }
  bool& has_ended;
};

TEST(Forks, DoNotEndWhatTheyHaveNotMade) {
  bool has_ended = false;
  auto object = make_shared_at_home<Ending>(has_ended);
  EXPECT_TRUE(holds_in_fork([&] {
    object.reset();
    return !has_ended;
  }));
  object.reset();
  EXPECT_TRUE(has_ended);
}

TEST(Forks, CloseTheConnectionsThatTellOfTheirParentsEnd) {
  const int connection = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(connection, 0);
  const auto is_open = [&] { return ::fcntl(connection, F_GETFD) >= 0; };
  ConnectionsOfForks::instance().add(connection);
  EXPECT_TRUE(holds_in_fork([&] { return !is_open(); }));
  EXPECT_TRUE(is_open());
  ConnectionsOfForks::instance().remove(connection);
  EXPECT_TRUE(holds_in_fork(is_open));
  ::close(connection);
}

}  // namespace
}  // namespace paceline
