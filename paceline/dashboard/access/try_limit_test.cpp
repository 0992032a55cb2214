#include "paceline/dashboard/access/try_limit.h"

#include <gtest/gtest.h>

namespace paceline::dashboard {
namespace {

constexpr TryLimit::Time kNow{std::chrono::hours(1)};

void be_wrong(TryLimit& limit, const std::string& address, int times, TryLimit::Time now = kNow) {
  for (int i = 0; i < times; ++i) limit.note_wrong(address, now);
}

TEST(TryLimit, WhoIsWrongTooOftenWaits) {
  TryLimit limit;
  be_wrong(limit, "10.0.0.1", TryLimit::kTries - 1);
  EXPECT_EQ(limit.wait_of("10.0.0.1", kNow), std::nullopt);
  be_wrong(limit, "10.0.0.1", 1);
  EXPECT_EQ(limit.wait_of("10.0.0.1", kNow), TryLimit::kPause);
  EXPECT_EQ(limit.wait_of("10.0.0.2", kNow), std::nullopt);
  const auto later = kNow + TryLimit::kPause;
  EXPECT_EQ(limit.wait_of("10.0.0.1", later), std::nullopt) << "once more";
  be_wrong(limit, "10.0.0.1", 1, later);
  EXPECT_EQ(limit.wait_of("10.0.0.1", later), TryLimit::kPause);
  EXPECT_EQ(limit.wait_of("10.0.0.1", later + TryLimit::kTries * TryLimit::kPause), std::nullopt);
}

TEST(TryLimit, ANetworkOfOneMachineIsOneAddress) {
  TryLimit limit;
  for (int i = 0; i < TryLimit::kTries; ++i) limit.note_wrong("2001:db8:1:2::" + std::to_string(i), kNow);
  EXPECT_EQ(limit.wait_of("2001:db8:1:2:ffff::1", kNow), TryLimit::kPause);
  EXPECT_EQ(limit.wait_of("2001:db8:1:3::1", kNow), std::nullopt);
  for (int i = 0; i < TryLimit::kTries; ++i) limit.note_wrong("fe80::" + std::to_string(i) + "%eth0", kNow);
  EXPECT_EQ(limit.wait_of("fe80::ffff%eth0", kNow), TryLimit::kPause);
}

TEST(TryLimit, ManyAddressesTakeNoMoreRoomAndFreeNobody) {
  TryLimit limit;
  be_wrong(limit, "10.0.0.1", 2 * TryLimit::kTries);
  for (size_t i = 0; i < 2 * TryLimit::kMostAddresses; ++i) limit.note_wrong("x" + std::to_string(i), kNow);
  EXPECT_NE(limit.wait_of("10.0.0.1", kNow), std::nullopt);
}

}  // namespace
}  // namespace paceline::dashboard
