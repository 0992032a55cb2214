#include "paceline/core/posix/network_interface.h"

#include <gmock/gmock.h>

#include <algorithm>

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

TEST(NetworkInterface, OfAnAddressWithAPortTheHost) {
  EXPECT_EQ(host_of("10.0.0.1:80"), "10.0.0.1");
  EXPECT_EQ(host_of("[fd00::1]:80"), "fd00::1");
}

TEST(NetworkInterface, TheMachinesOwnAddresses) {
  const std::vector<std::string> own = own_addresses();
  EXPECT_THAT(own, ::testing::Contains("127.0.0.1"));
  EXPECT_TRUE(is_loopback(own.back()));
  for (const std::string& address : own) EXPECT_NE(interface_of(address), "") << address;
  EXPECT_TRUE(std::ranges::is_sorted(own, {}, [](const std::string& one) { return is_loopback(one); }));
  EXPECT_THAT(addresses_of("127.0.0.1").ValueOrDie(), ::testing::ElementsAre("127.0.0.1"));
  EXPECT_THAT(addresses_of("no.such.host.invalid").status().message(), ::testing::HasSubstr("no.such.host.invalid"));
}

TEST(NetworkInterface, AddressesOfOneInterface) {
  EXPECT_EQ(own_addresses("lo").front(), "127.0.0.1");
  EXPECT_TRUE(own_addresses("no_such_interface").empty());
}

}  // namespace
}  // namespace paceline
