// What a session of a rank is given, whether its process is a worker or the calling process.
#include <c10/core/impl/VirtualGuardImpl.h>

#include "paceline/train/worker/session_internal.h"

namespace paceline::train {
namespace {

// The CPU, or the rank's GPUs.
std::vector<torch::Device> devices_of(int64_t local_rank, const ScalingConfig& scaling) {
  if (!scaling.use_gpu) return {torch::kCPU};
  std::vector<torch::Device> devices;
  const double each = gpus_per_worker(scaling);
  const int64_t first = first_gpu(local_rank, each);
  for (int64_t gpu = first; gpu < first + gpus_for(1, each); ++gpu) {
    devices.emplace_back(torch::kCUDA, static_cast<torch::DeviceIndex>(gpu));
  }
  return devices;
}

}  // namespace

SessionOptions options_at_place(TrainContext::Values context, const ScalingConfig& scaling,
                                const TorchConfig& torch_config, const DebugConfig& debug_config) {
  SessionOptions options;
  options.devices = devices_of(context.local_rank, scaling);
  options.context = std::move(context);
  options.device = options.devices.front();
  options.timeout = std::chrono::milliseconds(static_cast<int64_t>(torch_config.timeout_s * 1000));
  options.debug_config = debug_config;
  if (options.device.is_cuda()) c10::impl::VirtualGuardImpl(options.device.type()).setDevice(options.device);
  return options;
}

comm::GroupOptions group_options(const SessionOptions& options, const TorchConfig& torch_config) {
  return {.backend = std::string(comm::backend_for(torch_config.backend.value_or(""), options.device.type())),
          .rank = options.context.world_rank,
          .world_size = options.context.world_size,
          .device = options.device,
          .timeout = options.timeout,
          .address = options.address,
          .progress = options.progress,
          .check_collectives = options.debug_config.check_collectives};
}

}  // namespace paceline::train
