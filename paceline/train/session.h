// The functions that a train loop calls: report, context, checkpoint, collectives.
//
// They belong to the worker that runs the loop; called elsewhere they throw UsageError naming themselves. Threads that
// the loop starts may call them; calls of one rank's report() must not run at once.
#pragma once

#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

#include "paceline/checkpoint/checkpoint.h"
#include "paceline/comm/group.h"
#include "paceline/core/dictionary.h"
#include "paceline/train/context.h"

namespace paceline {

struct ReportOptions {
  /// How the ranks' numbers become one in Result::metrics and for callbacks: "mean", "sum", "min", "max", or "" for
  /// rank 0's. All ranks give the same.
  std::string reduce;
};

/// Hands over metrics and, optionally, a checkpoint. Report k is each rank's k-th call.
///
/// Metrics alone are queued: the call takes microseconds, order is kept, those of all ranks are stored. With a
/// checkpoint the call blocks this rank until its own files are durable; the checkpoint is published once every rank's
/// k-th report has arrived. Ranks may differ in whether they hand over files; what several hand over is merged, the
/// lowest rank winning where names are equal.
/// Throws StorageError when the files cannot be written, Stopped when the run is being stopped.
///
///     report({{"loss", loss}, {"epoch", epoch}}, Checkpoint::save(model, optimizer));
void report(const Metrics& metrics, const std::optional<Checkpoint>& checkpoint = std::nullopt,
            const ReportOptions& options = {});

/// This worker's place in the run.
TrainContext get_context();
/// The latest published checkpoint: at the start the one to continue from; nullopt in a run that has none.
std::optional<Checkpoint> get_checkpoint();
/// Where this worker computes: its GPU with use_gpu, else the CPU.
torch::Device get_device();

/// Waits for all ranks. CollectiveError naming the missing ranks after TorchConfig::timeout_s.
void barrier();
/// Rank 0's value, on every rank. Every rank calls it; meant for small values (kilobytes).
Json broadcast_from_rank_zero(const Json& value);
/// Seeds LibTorch on this worker and asks for deterministic algorithms.
void enable_reproducibility(uint64_t seed = 0);

/// Reduces `tensor` (any shape, equal on all ranks) over the ranks and returns it; the argument is not changed.
torch::Tensor all_reduce(const torch::Tensor& tensor, comm::ReduceOp op = comm::ReduceOp::sum);
/// The ranks' tensors (equal shapes), by rank.
std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor);
/// `root`'s tensor, on every rank; shapes and types must be equal. The argument is not changed.
torch::Tensor broadcast(const torch::Tensor& tensor, int64_t root = 0);
/// c10d's process group, for what is not here; null in a world of one. Owned by the session: valid until the loop
/// returns.
c10d::ProcessGroup* process_group();

/// Declares the step that runs void: gradients are dropped, so that optimizer.step() changes nothing, and the loader
/// hands out the same batch again. Local: call it on every rank.
void void_step();

/// Thrown out of report(), loaders and collectives when the run is being stopped. Let it pass.
class Stopped : public Error {
 public:
  using Error::Error;
};

}  // namespace paceline
