// Group: the ranks of one generation and their collectives, over a c10d backend.
//
// c10d's headers change with every minor version of LibTorch: they are included in .cpp files of comm/ only, and this
// header names c10d types without defining them.
// Threading: collectives of one group are called by one thread at a time, in the same order on every rank.
// Errors: CollectiveError naming operation, rank, world size and what the backend said.
#pragma once

#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/progress.h"
#include "paceline/rpc/key_value.h"

namespace c10d {
class ProcessGroup;
}

namespace paceline::comm {

struct GroupOptions {
  /// The name of a row of backend.h, or "" for the device's default.
  std::string backend;
  int64_t rank = 0;
  int64_t world_size = 1;
  torch::Device device = torch::kCPU;
  std::chrono::milliseconds timeout{std::chrono::minutes(30)};
  /// Where ranks on other machines reach this one, a name or a number; "": all ranks are on this machine, and connect
  /// on the loopback interface. Over Gloo the environment variable GLOO_SOCKET_IFNAME names interfaces instead.
  std::string address;
  /// Where the group's collectives are counted, also those that c10d starts by itself; null for nowhere. Outlives the
  /// group. NCCL's are not counted: the processor does not wait for them.
  Progress* progress = nullptr;
  /// Before every collective the ranks compare which they call, with which tensors: CollectiveError or, out of
  /// backward, c10::Error naming what differs. Costs two small collectives each.
  bool check_collectives = false;
};

enum class ReduceOp { sum, mean, min, max, product };

/// "sum", "mean", …
const char* to_string(ReduceOp op);

class Group {
 public:
  /// Meets the other ranks through `store` and connects. Collective. A world of one needs no store and
  /// connects to nobody. CollectiveError when ranks do not arrive in time or the backend is not built in.
  static std::shared_ptr<Group> create(const GroupOptions& options, std::shared_ptr<rpc::KeyValueClient> store);
  /// A group of this process's torchrun variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), over torch's TCPStore.
  static std::shared_ptr<Group> from_torchrun_environment(const GroupOptions& options);
  /// Ranks as threads of one process (gloo over an in-process store), for tests: one group per rank.
  static std::vector<std::shared_ptr<Group>> in_process(int64_t world_size);

  virtual ~Group() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  virtual const std::string& backend() const = 0;
  /// In place.
  virtual void all_reduce(torch::Tensor& tensor, ReduceOp op) = 0;
  /// The ranks' tensors, by rank. Shapes and dtypes are equal on all ranks.
  virtual std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) = 0;
  /// In place, from `root`.
  virtual void broadcast(torch::Tensor& tensor, int64_t root) = 0;
  /// In place, several tensors coalesced into messages of about 250 MiB.
  virtual void broadcast_coalesced(const std::vector<torch::Tensor>& tensors, int64_t root) = 0;
  virtual void barrier() = 0;
  /// The same ranks over connections of their own: over Gloo its collectives need no order among this group's. NCCL's
  /// run on one GPU and wait for its room: those of several groups that wait for each other begin in one order on all
  /// ranks (or NCCL_LAUNCH_ORDER_IMPLICIT=1 is set, from NCCL 2.26 on). Collective: no rank has it before all can use
  /// it. An abort of this group aborts it too, also while it connects. Over Gloo it costs a connection to every other
  /// rank and three threads, over shared memory a few descriptors more; they end with it.
  virtual std::shared_ptr<Group> duplicate() = 0;
  /// Makes collectives that wait fail, from any thread: when the worker is told to stop.
  virtual void abort() = 0;
  /// For users who want c10d itself (they include c10d/ProcessGroup.hpp); null in a world of one.
  virtual c10d::ProcessGroup* process_group() const = 0;
};

/// Every rank's `text`, by rank; texts may differ in length. Collective.
std::vector<std::string> all_gather_text(Group& group, const std::string& text);

}  // namespace paceline::comm
