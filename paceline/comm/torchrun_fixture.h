// What torchrun's agent does for the ranks of tests, which are forks of them: it keeps the store, also from one group
// of a process to the next, and says in the environment where it is. Each rank says itself which it is (RANK).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace paceline::comm {

class TorchrunAgent {
 public:
  explicit TorchrunAgent(int world_size)
      : store_("127.0.0.1", c10d::TCPStoreOptions{.port = 0, .isServer = true, .waitWorkers = false}) {
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("MASTER_PORT", std::to_string(store_.getPort()).c_str(), 1);
    ::setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    ::setenv("WORLD_SIZE", std::to_string(world_size).c_str(), 1);
  }
  TorchrunAgent(const TorchrunAgent&) = delete;
  TorchrunAgent& operator=(const TorchrunAgent&) = delete;
  ~TorchrunAgent() {
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE", "WORLD_SIZE", "RANK"})
      ::unsetenv(name);
  }

 private:
  const c10d::TCPStore store_;
};

}  // namespace paceline::comm
