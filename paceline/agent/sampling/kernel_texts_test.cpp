#include "paceline/agent/sampling/kernel_texts.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline::agent {
namespace {

TEST(KernelTexts, CpuTicksAreOfAllCores) {
  const auto ticks =
      parse_cpu_ticks("cpu  10 1 5 100 20 2 3 4 7 0\ncpu0 5 1 2 50 10 1 1 2 3 0\nintr 12345 0 0\nctxt 99\n");
  ASSERT_TRUE(ticks);
  EXPECT_EQ(ticks->all, 145);
  EXPECT_EQ(ticks->busy, 25);
}

TEST(KernelTexts, CpuTicksOfOldKernelsAndCutTexts) {
  EXPECT_EQ(parse_cpu_ticks("cpu  10 1 5 100 20")->busy, 16);
  EXPECT_FALSE(parse_cpu_ticks("cpu  10 1 5 100"));
  EXPECT_FALSE(parse_cpu_ticks("cpu0 5 1 2 50 10 1 1 2 3 0\n"));
  EXPECT_FALSE(parse_cpu_ticks("cpu x y z\n"));
  EXPECT_FALSE(parse_cpu_ticks(""));
}

TEST(KernelTexts, Load) {
  EXPECT_DOUBLE_EQ(parse_load("1.25 0.50 0.10 2/300 4711\n").value(), 1.25);
  EXPECT_FALSE(parse_load(""));
  EXPECT_FALSE(parse_load("\n"));
}

TEST(KernelTexts, NumbersBehindNames) {
  const std::string meminfo = "MemTotal:       16384 kB\nMemFree:          100 kB\nMemAvailable:   8192 kB\nSwapTotal:";
  EXPECT_EQ(parse_number_behind(meminfo, "MemTotal:"), 16384);
  EXPECT_EQ(parse_number_behind(meminfo, "MemAvailable:"), 8192);
  EXPECT_FALSE(parse_number_behind(meminfo, "SwapTotal:"));  // cut off
  EXPECT_FALSE(parse_number_behind(meminfo, "SwapFree:"));
  EXPECT_EQ(parse_number_behind("inactive_file 7\nactive_file 9\n", "active_file"), 9);
  EXPECT_FALSE(parse_number_behind("read_bytes: many\n", "read_bytes:"));
  EXPECT_EQ(parse_leading_number("1048576\n"), 1048576);
  EXPECT_FALSE(parse_leading_number("max\n"));
  EXPECT_FALSE(parse_leading_number("99999999999999999999999\n"));
}

TEST(KernelTexts, DisksThatAreCounted) {
  const std::string diskstats =
      "   8       0 sda 100 0 2000 5 50 0 400 6 0 7 8\n"
      "   8       1 sda1 90 0 1800 5 50 0 400 6 0 7 8\n"
      " 253       0 dm-0 90 0 1800 5 50 0 400 6 0 7 8\n"
      " 259       0 nvme0n1 1 0 8 0 1 0 16 0 0 0 0 0 0 0 0 0 0\n"
      "   8      16 sdb 100 0 20";
  const auto counts =
      parse_disk_bytes(diskstats, [](std::string_view name) { return is_real_disk(name) && name != "sda1"; });
  EXPECT_EQ(counts, (ByteCounts{.in = 2008 * 512, .out = 416 * 512}));
  EXPECT_FALSE(parse_disk_bytes(diskstats, [](std::string_view) { return false; }));
  EXPECT_FALSE(is_real_disk("loop0"));
  EXPECT_TRUE(is_real_disk("vda"));
}

TEST(KernelTexts, NetworkWithoutLoopback) {
  const std::string net_dev =
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop\n"
      "    lo: 500 5 0 0 0 0 0 0 500 5 0 0 0 0 0 0\n"
      "  eth0:1000 5 0 0 0 0 0 0 300 5 0 0 0 0 0 0\n"
      "veth12: 7 5 0 0 0 0 0 0 7 5 0 0 0 0 0 0\n"
      "   ib0: 50 5 0 0 0 0 0 0 60 5 0 0 0 0 0 0\n"
      "  eth1: 9 9";
  EXPECT_EQ(parse_network_bytes(net_dev), (ByteCounts{.in = 1050, .out = 360}));
  EXPECT_FALSE(parse_network_bytes("    lo: 500 5 0 0 0 0 0 0 500 5 0 0 0 0 0 0\n"));
  EXPECT_FALSE(parse_network_bytes(":::\n\n"));
}

}  // namespace
}  // namespace paceline::agent
