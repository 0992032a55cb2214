#include "paceline/core/posix/unix_address.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "paceline/core/posix/socket_pair.h"

namespace paceline {
namespace {

constexpr uid_t kSomebody = 65534;
constexpr uid_t kSomebodyElse = 65533;

// What the process of `us` says of one that was of `peer` when it connected. For processes of root.
bool admits(uid_t us, uid_t peer) {
  if (::seteuid(peer) != 0) return false;
  const auto [left, right] = make_socket_pair().ValueOrDie();
  if (::seteuid(0) != 0 || ::seteuid(us) != 0) return false;
  const bool admitted = may_connect(left.get());
  return ::seteuid(0) == 0 && admitted;
}

TEST(UnixAddress, APathThatIsTooLongIsNamed) {
  EXPECT_TRUE(unix_address("/tmp/socket").ok());
  EXPECT_TRUE(unix_address("/" + std::string(107, 'a')).status().IsIOError());
}

TEST(UnixAddress, OnesOwnUserAndRootMayConnect) {
  const auto [left, right] = make_socket_pair().ValueOrDie();
  EXPECT_TRUE(may_connect(left.get()));
  EXPECT_FALSE(may_connect(-1));
  if (::geteuid() != 0) return;  // only root can be others
  EXPECT_TRUE(admits(kSomebody, kSomebody));
  EXPECT_TRUE(admits(kSomebody, 0));
  EXPECT_FALSE(admits(kSomebody, kSomebodyElse));
  EXPECT_FALSE(admits(0, kSomebodyElse));
}

}  // namespace
}  // namespace paceline
