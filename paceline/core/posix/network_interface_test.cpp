#include "paceline/core/posix/network_interface.h"

#include <gmock/gmock.h>

namespace paceline {
namespace {

TEST(NetworkInterface, IsFoundByItsAddress) {
  EXPECT_EQ(interface_of("127.0.0.1"), "lo");
  EXPECT_EQ(interface_of("192.0.2.1"), "") << "an address for documentation";
  EXPECT_EQ(interface_of("localhost"), "") << "a name is no number";
}

TEST(NetworkInterface, TheAddressTowardsAHost) {
  EXPECT_EQ(address_towards("127.0.0.1").ValueOrDie(), "127.0.0.1");
  EXPECT_EQ(interface_of(address_towards("localhost").ValueOrDie()), "lo");
  EXPECT_THAT(address_towards("no.such.host.invalid").status().message(), ::testing::HasSubstr("no.such.host.invalid"));
}

}  // namespace
}  // namespace paceline
