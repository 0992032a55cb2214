// Group: the ranks of one generation and their collectives, over a c10d backend.
//
// c10d's headers change with every minor version of LibTorch: they are included in .cpp files of comm/ only, and this
// header names c10d types without defining them.
// Threading: collectives of one group are called by one thread at a time, in the same order on every rank.
// Errors: CollectiveError naming operation, rank, world size and what the backend said.
#pragma once

#include <c10/util/intrusive_ptr.h>
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
  /// The network interface to connect to other machines by, such as "eth1"; "": as `address` says.
  std::string interface;
  /// Ranks of other names share no memory with this one, even where they could. Without names all that can do.
  std::string node;
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

/// A collective, or a message, that is under way. Its tensors must stay as they are until wait() has returned; whoever
/// drops it without that knows nothing of its results. Threading: any.
class Work {
 public:
  virtual ~Work() = default;
  /// Until the results are there; of tensors of a GPU, the current stream waits instead. Throws what it has failed
  /// with.
  virtual void wait() = 0;
};

/// Tensors are handles: one that is written to is given as `const torch::Tensor&` all the same, and may be a view.
/// What a call asks for is checked before anything is sent: a CollectiveError that says what was wanted and got.
class Group {
 public:
  /// Meets the other ranks through `store` and connects. Collective. A world of one needs no store and
  /// connects to nobody. CollectiveError when ranks do not arrive in time or the backend is not built in.
  static std::shared_ptr<Group> create(const GroupOptions& options, std::shared_ptr<rpc::KeyValueClient> store);
  /// A group of this process's torchrun variables (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), over torch's TCPStore.
  static std::shared_ptr<Group> from_torchrun_environment(const GroupOptions& options);
  /// A group that somebody else has made and goes on to own, such as torch.distributed, with Paceline's errors.
  /// `options`: the device and what groups that split off it shall have; the place is the group's. Nothing of it is
  /// counted here.
  static std::shared_ptr<Group> over(const c10::intrusive_ptr<c10d::ProcessGroup>& group, GroupOptions options);
  /// Ranks as threads of one process (the default backend over an in-process store), for tests: one group per rank.
  static std::vector<std::shared_ptr<Group>> in_process(int64_t world_size);

  virtual ~Group() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  virtual const std::string& backend() const = 0;
  /// In place.
  void all_reduce(const torch::Tensor& tensor, ReduceOp op) { start_all_reduce(tensor, op)->wait(); }
  /// The ranks' tensors, by rank. Shapes and dtypes are equal on all ranks.
  virtual std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) = 0;
  /// In place, from `root`.
  virtual void broadcast(const torch::Tensor& tensor, int64_t root) = 0;
  /// In place, several tensors coalesced into messages of about 250 MiB.
  virtual void broadcast_coalesced(const std::vector<torch::Tensor>& tensors, int64_t root) = 0;
  virtual void barrier() = 0;
  /// `input` holds a part for each rank, one behind the other, of the size of `output`, which gets this rank's, reduced
  /// over all ranks.
  void reduce_scatter(const torch::Tensor& output, const torch::Tensor& input, ReduceOp op) {
    start_reduce_scatter(output, input, op)->wait();
  }
  /// `output` gets the ranks' inputs, one behind the other.
  void all_gather_into(const torch::Tensor& output, const torch::Tensor& input) {
    start_all_gather_into(output, input)->wait();
  }
  /// Rank r gets the next input_rows[r] rows of `input`, and the next output_rows[r] rows of `output` come from it:
  /// rows of the first dimension. No counts: all ranks get, or give, alike.
  void all_to_all(const torch::Tensor& output, const torch::Tensor& input, const std::vector<int64_t>& output_rows = {},
                  const std::vector<int64_t>& input_rows = {}) {
    start_all_to_all(output, input, output_rows, input_rows)->wait();
  }
  /// To another rank, which calls receive() for a tensor of the same size. Those of one tag arrive in their order; they
  /// need none among the collectives. NCCL knows no tags.
  void send(const torch::Tensor& tensor, int64_t rank, int tag = 0) { start_send(tensor, rank, tag)->wait(); }
  void receive(const torch::Tensor& tensor, int64_t rank, int tag = 0) { start_receive(tensor, rank, tag)->wait(); }

  /// The same, to be waited for later: several can be under way, and are waited for in any order.
  virtual std::shared_ptr<Work> start_all_reduce(const torch::Tensor& tensor, ReduceOp op) = 0;
  virtual std::shared_ptr<Work> start_reduce_scatter(const torch::Tensor& output, const torch::Tensor& input,
                                                     ReduceOp op) = 0;
  virtual std::shared_ptr<Work> start_all_gather_into(const torch::Tensor& output, const torch::Tensor& input) = 0;
  virtual std::shared_ptr<Work> start_all_to_all(const torch::Tensor& output, const torch::Tensor& input,
                                                 const std::vector<int64_t>& output_rows,
                                                 const std::vector<int64_t>& input_rows) = 0;
  virtual std::shared_ptr<Work> start_send(const torch::Tensor& tensor, int64_t rank, int tag) = 0;
  virtual std::shared_ptr<Work> start_receive(const torch::Tensor& tensor, int64_t rank, int tag) = 0;

  /// A tensor of one dimension, not initialised, in memory that suits the backend: the ranks of a machine reduce what
  /// is there without a copy. Ordinary memory where a backend has none of its own. It may outlive the group.
  virtual torch::Tensor allocate(int64_t elements, const torch::TensorOptions& options) = 0;
  /// The same ranks over connections of their own: over Gloo its collectives need no order among this group's. NCCL's
  /// run on one GPU and wait for its room: those of several groups that wait for each other begin in one order on all
  /// ranks (or NCCL_LAUNCH_ORDER_IMPLICIT=1 is set, from NCCL 2.26 on). Collective: no rank has it before all can use
  /// it. An abort of this group, or its end, aborts it too, also while it connects. Over Gloo it costs a connection to
  /// every other rank and three threads, over shared memory a few descriptors more; they end with it.
  virtual std::shared_ptr<Group> duplicate() = 0;
  /// These ranks, in this order, as a group of their own; the others get null, and need not even call. Collective among
  /// them. It is a duplicate in all else, but that its collectives are not counted as progress, which is of all ranks.
  virtual std::shared_ptr<Group> split(const std::vector<int64_t>& ranks) = 0;
  /// Makes collectives that wait fail, from any thread: when the worker is told to stop.
  virtual void abort() = 0;
  /// For users who want c10d itself (they include c10d/ProcessGroup.hpp); null in a world of one.
  virtual c10d::ProcessGroup* process_group() const = 0;
};

/// Every rank's `text`, by rank; texts may differ in length. Collective.
std::vector<std::string> all_gather_text(Group& group, const std::string& text);

}  // namespace paceline::comm
