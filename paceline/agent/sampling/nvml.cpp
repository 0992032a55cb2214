#include "paceline/agent/sampling/nvml.h"

#include <dlfcn.h>

#include <array>
#include <utility>

namespace paceline::agent {
namespace {

// As nvml.h has them.
constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;
constexpr int kTemperatureOfGpu = 0;
constexpr int kUncorrected = 1, kSinceDriverStarted = 0;
constexpr unsigned long long kHeldDown = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;  // power cap, slowdown, heat, power brake
constexpr unsigned long long kNotAvailable = ~0ULL;
constexpr unsigned int kTextBytes = 96;
constexpr double kWatts = 1e-3;

// What `call` has put into a T, as a number; nothing where it could not.
template <class T, class Call, class... Arguments>
MaybeNumber asked(Call call, NvmlCalls::Device device, Arguments... arguments) {
  T value = 0;
  if (call == nullptr || call(device, arguments..., &value) != kSuccess) return std::nullopt;
  return static_cast<double>(value);
}

std::string text_of(int (*call)(NvmlCalls::Device, char*, unsigned int), NvmlCalls::Device device) {
  std::array<char, kTextBytes> text{};
  if (call == nullptr || call(device, text.data(), kTextBytes - 1) != kSuccess) return "";
  return text.data();
}

class NvmlGpus final : public Gpus {
 public:
  struct Gpu {
    NvmlCalls::Device device;
    GpuSample about;  // what does not change
  };
  NvmlGpus(const NvmlCalls& calls, std::vector<Gpu> gpus) : calls_(calls), gpus_(std::move(gpus)) {}

  std::vector<GpuSample> sample() override {
    std::vector<GpuSample> samples;
    for (const Gpu& gpu : gpus_) {
      GpuSample& sample = samples.emplace_back(gpu.about);
      NvmlCalls::Utilization utilization;
      if (calls_.utilization != nullptr && calls_.utilization(gpu.device, &utilization) == kSuccess) {
        sample.utilization_ratio = utilization.gpu / 100.0;
      }
      NvmlCalls::Memory memory;
      if (calls_.memory != nullptr && calls_.memory(gpu.device, &memory) == kSuccess) {
        sample.memory_used_bytes = static_cast<double>(memory.used);
        sample.memory_total_bytes = static_cast<double>(memory.total);
      }
      if (auto power = asked<unsigned int>(calls_.power, gpu.device)) sample.power_watts = *power * kWatts;
      sample.temperature_celsius = asked<unsigned int>(calls_.temperature, gpu.device, kTemperatureOfGpu);
      unsigned long long reasons = 0;
      if (calls_.throttle_reasons != nullptr && calls_.throttle_reasons(gpu.device, &reasons) == kSuccess) {
        sample.throttled = (reasons & kHeldDown) != 0 ? 1 : 0;
      }
      sample.ecc_errors_total =
          asked<unsigned long long>(calls_.ecc_errors, gpu.device, kUncorrected, kSinceDriverStarted);
    }
    return samples;
  }

  std::map<pid_t, double> memory_of_processes() override {
    std::map<pid_t, double> bytes;
    if (calls_.processes == nullptr) return bytes;
    for (const Gpu& gpu : gpus_) {
      std::vector<NvmlCalls::Process> found(16);
      auto count = static_cast<unsigned int>(found.size());
      int code = calls_.processes(gpu.device, &count, found.data());
      if (code == kInsufficientSize) {
        found.resize(count + 16);  // others may come
        count = static_cast<unsigned int>(found.size());
        code = calls_.processes(gpu.device, &count, found.data());
      }
      if (code != kSuccess) continue;
      found.resize(std::min<size_t>(count, found.size()));
      for (const NvmlCalls::Process& one : found) {
        if (one.used_memory == kNotAvailable) continue;
        bytes[static_cast<pid_t>(one.pid)] += static_cast<double>(one.used_memory);
      }
    }
    return bytes;
  }

  std::string problem() const override { return ""; }

 private:
  const NvmlCalls calls_;
  const std::vector<Gpu> gpus_;
};

}  // namespace

arrow::Result<NvmlCalls> load_nvml() {
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return arrow::Status::KeyError("there is no driver of NVIDIA's (libnvidia-ml.so.1)");
  NvmlCalls calls;
  const auto find = [library](auto& call, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(::dlsym(library, name));
      if (call != nullptr) return;
    }
  };
  find(calls.init, {"nvmlInit_v2"});
  find(calls.error_text, {"nvmlErrorString"});
  find(calls.count, {"nvmlDeviceGetCount_v2"});
  find(calls.handle, {"nvmlDeviceGetHandleByIndex_v2"});
  find(calls.uuid, {"nvmlDeviceGetUUID"});
  find(calls.name, {"nvmlDeviceGetName"});
  find(calls.utilization, {"nvmlDeviceGetUtilizationRates"});
  find(calls.memory, {"nvmlDeviceGetMemoryInfo"});
  find(calls.power, {"nvmlDeviceGetPowerUsage"});
  find(calls.temperature, {"nvmlDeviceGetTemperature"});
  find(calls.throttle_reasons, {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  find(calls.ecc_errors, {"nvmlDeviceGetTotalEccErrors"});
  find(calls.processes, {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
  return calls;
}

std::unique_ptr<Gpus> open_nvml(const arrow::Result<NvmlCalls>& loaded) {
  if (!loaded.ok()) return std::make_unique<NoGpus>(loaded.status().message());
  const NvmlCalls& calls = *loaded;
  if (calls.init == nullptr || calls.count == nullptr || calls.handle == nullptr) {
    return std::make_unique<NoGpus>("NVIDIA's driver is too old: it lacks functions of its library");
  }
  const auto why = [&calls](int code) {
    return "NVIDIA's driver: " + std::string(calls.error_text != nullptr ? calls.error_text(code) : "error") + " (" +
           std::to_string(code) + ")";
  };
  if (const int code = calls.init(); code != kSuccess) return std::make_unique<NoGpus>(why(code));
  unsigned int count = 0;
  if (const int code = calls.count(&count); code != kSuccess) return std::make_unique<NoGpus>(why(code));
  std::vector<NvmlGpus::Gpu> gpus;
  for (unsigned int index = 0; index < count; ++index) {
    NvmlCalls::Device device = nullptr;
    if (calls.handle(index, &device) != kSuccess) continue;  // lost, or not ours to see
    GpuSample about{.uuid = text_of(calls.uuid, device), .index = index, .name = text_of(calls.name, device)};
    if (about.uuid.empty()) about.uuid = std::to_string(index);
    gpus.push_back({device, std::move(about)});
  }
  if (gpus.empty()) return std::make_unique<NoGpus>("NVIDIA's driver shows no GPU");
  return std::make_unique<NvmlGpus>(calls, std::move(gpus));
}

}  // namespace paceline::agent
