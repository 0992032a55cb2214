#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "paceline/agent/node.h"
#include "paceline/agent/out_of_memory_internal.h"
#include "paceline/core/posix/memory_limit.h"

namespace paceline::agent {
namespace {

using testing::ElementsAre;

TEST(Node, CountsGpusThatAProcessCanUse) {
  const std::vector<std::string> devices = {"null",      "nvidia0",    "nvidia1", "nvidia10",
                                            "nvidiactl", "nvidia-uvm", "nvidia"};
  EXPECT_EQ(count_gpus(devices, std::nullopt), 3);
  EXPECT_EQ(count_gpus(devices, ""), 0);
  EXPECT_EQ(count_gpus(devices, "1"), 1);
  EXPECT_EQ(count_gpus(devices, "0,-1,1"), 1);
  EXPECT_EQ(count_gpus(devices, "GPU-1,GPU-2"), 2);
  EXPECT_EQ(count_gpus(devices, "0,1,2,3"), 3);
  EXPECT_EQ(count_gpus({}, "0"), 0);
}

TEST(Node, CallsAcceleratorsAsRayDoes) {
  EXPECT_EQ(accelerator_type_of("NVIDIA A100-SXM4-80GB"), "A100");
  EXPECT_EQ(accelerator_type_of("NVIDIA H100 80GB HBM3"), "H100");
  EXPECT_EQ(accelerator_type_of("Tesla V100-SXM2-16GB"), "V100");
  EXPECT_EQ(accelerator_type_of("NVIDIA"), "");
  EXPECT_EQ(accelerator_type_of(""), "");
}

TEST(Node, OffersWhatItIsToldTo) {
  const rpc::NodeReady node = describe_node({.name = "a", .cores = 3, .gpus = 1});
  EXPECT_EQ(node.cores, 3);
  EXPECT_EQ(node.gpus, 1);
  EXPECT_GE(describe_node({}).cores, 1);
}

TEST(OutOfMemory, FindsTheCountersOfBothCgroupVersions) {
  EXPECT_THAT(out_of_memory_files("0::/user.slice/a:b\n"),
              ElementsAre("/sys/fs/cgroup/user.slice/a:b/memory.events", "/sys/fs/cgroup/memory.events"));
  EXPECT_THAT(out_of_memory_files("8:pids:/\n4:cpu,memory:/job\n1:name=systemd:/\n"),
              ElementsAre("/sys/fs/cgroup/memory/job/memory.oom_control", "/sys/fs/cgroup/memory/memory.oom_control"));
}

TEST(OutOfMemory, ReadsLimitsOfBothCgroupVersions) {
  EXPECT_EQ(parse_memory_limit("16000000\n"), 16'000'000);
  EXPECT_EQ(parse_memory_limit("max\n"), 0);
  EXPECT_EQ(parse_memory_limit("9223372036854771712\n"), 0);
}

TEST(OutOfMemory, EachKillIsClaimedOnce) {
  const std::string path =
      std::filesystem::path(testing::TempDir()) / ("out_of_memory_test_" + std::to_string(::getpid()));
  const auto set = [&](int kills) { std::ofstream(path) << "oom_kill " << kills << "\n"; };
  set(3);
  OutOfMemoryCounter counter({"/no/such/file", path});
  EXPECT_FALSE(counter.take());
  set(5);
  EXPECT_TRUE(counter.take());
  EXPECT_TRUE(counter.take());
  EXPECT_FALSE(counter.take());
  set(6);
  counter.forget();
  EXPECT_FALSE(counter.take());
  std::filesystem::remove(path);
  EXPECT_FALSE(counter.take());
  EXPECT_FALSE(OutOfMemoryCounter({"/no/such/file"}).take());
}

}  // namespace
}  // namespace paceline::agent
