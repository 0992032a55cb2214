// A C++ program as it is written for torchrun, without Paceline: a TCPStore at MASTER_ADDR:MASTER_PORT, gloo, and an
// all-reduce. Prints the sum on rank 0; "--fail" makes rank 1 exit with 5 instead.
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace {

int number(const char* name) {
  return std::atoi(std::getenv(name));
}

}  // namespace

int main(int argc, char** argv) {
  const int rank = number("RANK");
  const int world_size = number("WORLD_SIZE");
  if (argc > 1 && std::strcmp(argv[1], "--fail") == 0 && rank == 1) return 5;
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(number("MASTER_PORT"));
  // torchrun's agent keeps the store itself.
  options.isServer = rank == 0 && std::strcmp(std::getenv("TORCHELASTIC_USE_AGENT_STORE"), "True") != 0;
  auto tcp = c10::make_intrusive<c10d::TCPStore>(std::getenv("MASTER_ADDR"), options);
  auto store = c10::make_intrusive<c10d::PrefixStore>("c10d_program", tcp);
  auto gloo_options = c10d::ProcessGroupGloo::Options::create();
  gloo_options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  c10d::ProcessGroupGloo group(store, rank, world_size, gloo_options);
  std::vector<at::Tensor> tensors{torch::arange(1, 5) * (rank + 1)};
  group.allreduce(tensors)->wait();
  group.barrier()->wait();
  if (rank == 0) std::printf("sum %ld of %d ranks\n", tensors[0].sum().item<int64_t>(), world_size);
  return 0;
}
