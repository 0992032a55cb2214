#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "paceline/comm/backend_internal.h"

namespace paceline::comm {
namespace {

ConnectedBackend connect_nccl(const c10::intrusive_ptr<c10d::Store>& store, const BackendSettings& settings) {
  // NCCL would listen on a network interface of its choice; only a variable tells it otherwise.
  if (settings.address == kLoopback) ::setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/0);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = settings.timeout;
  auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, static_cast<int>(settings.rank),
                                                          static_cast<int>(settings.world_size), options);
  return {nccl, [nccl] { nccl->abort(); }};
}

}  // namespace

Backend nccl_backend() {
  return {.name = "nccl", .devices = {c10::kCUDA}, .shares_devices = false, .missing = "", .connect = &connect_nccl};
}

}  // namespace paceline::comm
