#include "paceline/agent/sampling/nvml.h"

#include <gtest/gtest.h>

#include <cstring>

namespace paceline::agent {
namespace {

constexpr int kNotSupported = 3;
constexpr int kInsufficientSize = 7;

// Of two GPUs the second is one that is divided (MIG): as a whole it does not tell what it does.
NvmlCalls fake_calls() {
  NvmlCalls calls;
  const auto is_divided = [](NvmlCalls::Device device) { return device != reinterpret_cast<void*>(1); };
  static const auto divided = is_divided;
  calls.init = [] { return 0; };
  calls.error_text = [](int) { return "Driver Not Loaded"; };
  calls.count = [](unsigned int* count) { return *count = 2, 0; };
  calls.handle = [](unsigned int index, NvmlCalls::Device* device) {
    return *device = reinterpret_cast<void*>(index + uintptr_t{1}), 0;
  };
  calls.uuid = [](NvmlCalls::Device device, char* text, unsigned int) {
    return std::strcpy(text, divided(device) ? "GPU-b" : "GPU-a"), 0;
  };
  calls.name = [](NvmlCalls::Device, char* text, unsigned int) { return std::strcpy(text, "NVIDIA H100"), 0; };
  calls.utilization = [](NvmlCalls::Device device, NvmlCalls::Utilization* utilization) {
    utilization->gpu = 75;
    return divided(device) ? kNotSupported : 0;
  };
  calls.memory = [](NvmlCalls::Device, NvmlCalls::Memory* memory) {
    *memory = {.total = 100, .free = 60, .used = 40};
    return 0;
  };
  calls.power = [](NvmlCalls::Device, unsigned int* milliwatts) { return *milliwatts = 350'500, 0; };
  calls.temperature = [](NvmlCalls::Device, int, unsigned int* celsius) { return *celsius = 61, 0; };
  calls.throttle_reasons = [](NvmlCalls::Device device, unsigned long long* reasons) {
    return *reasons = divided(device) ? 0x1 : 0x44, 0;  // idle; power and heat
  };
  calls.processes = [](NvmlCalls::Device device, unsigned int* count, NvmlCalls::Process* processes) {
    constexpr unsigned int kProcesses = 20;
    const bool fits = *count >= kProcesses;
    *count = divided(device) ? 0 : kProcesses;
    if (divided(device)) return 0;
    if (!fits) return kInsufficientSize;
    for (unsigned int i = 0; i < kProcesses; ++i) processes[i] = {.pid = 100 + i, .used_memory = 1000ULL + i};
    processes[1].used_memory = ~0ULL;
    return 0;
  };
  return calls;
}

TEST(Nvml, TellsWhatEachGpuDoes) {
  const auto gpus = open_nvml(fake_calls());
  EXPECT_EQ(gpus->problem(), "");
  const auto samples = gpus->sample();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0], (GpuSample{.uuid = "GPU-a",
                                   .index = 0,
                                   .name = "NVIDIA H100",
                                   .utilization_ratio = 0.75,
                                   .memory_used_bytes = 40,
                                   .memory_total_bytes = 100,
                                   .power_watts = 350.5,
                                   .temperature_celsius = 61,
                                   .throttled = 1}));
}

TEST(Nvml, WhatIsNotSupportedIsAbsent) {
  const auto samples = open_nvml(fake_calls())->sample();
  EXPECT_EQ(samples[1].utilization_ratio, std::nullopt);
  EXPECT_EQ(samples[1].ecc_errors_total, std::nullopt);
  EXPECT_EQ(samples[1].memory_used_bytes, 40);
  EXPECT_EQ(samples[1].throttled, 0);
}

TEST(Nvml, MemoryOfProcessesHoweverManyThereAre) {
  const auto bytes = open_nvml(fake_calls())->memory_of_processes();
  EXPECT_EQ(bytes.size(), 19u);  // of one it is not known
  EXPECT_EQ(bytes.at(100), 1000);
  EXPECT_FALSE(bytes.contains(101));
  EXPECT_EQ(bytes.at(119), 1019);
}

TEST(Nvml, SaysWhyThereAreNone) {
  EXPECT_EQ(open_nvml(arrow::Status::KeyError("no driver"))->problem(), "no driver");
  NvmlCalls calls = fake_calls();
  calls.init = [] { return 9; };
  const auto failed = open_nvml(calls);
  EXPECT_EQ(failed->problem(), "NVIDIA's driver: Driver Not Loaded (9)");
  EXPECT_TRUE(failed->sample().empty());
  calls = fake_calls();
  calls.count = [](unsigned int* count) { return *count = 0, 0; };
  EXPECT_EQ(open_nvml(calls)->problem(), "NVIDIA's driver shows no GPU");
  EXPECT_NE(open_nvml(NvmlCalls{})->problem(), "");
}

// Whatever this machine has: it is told, or it is told why not.
TEST(Nvml, OfThisMachine) {
  const auto gpus = open_nvml(load_nvml());
  EXPECT_EQ(gpus->sample().empty(), !gpus->problem().empty());
}

}  // namespace
}  // namespace paceline::agent
