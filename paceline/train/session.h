// The functions that a train loop calls: report, context, checkpoint, collectives.
//
// They belong to the worker that runs the loop; elsewhere they throw UsageError, which names the function. Threads that
// the loop starts may call them, but no two threads of a rank may call report() at the same time, and only one thread
// at a time may call collectives, in the same order on every rank. When the run is being stopped, report(), save(),
// loaders and collectives throw Stopped, also out of calls that are already waiting.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "paceline/checkpoint/checkpoint.h"
#include "paceline/comm/group.h"
#include "paceline/core/config/validation_config.h"
#include "paceline/core/dictionary.h"
#include "paceline/core/published_checkpoint.h"
#include "paceline/state/step.h"
#include "paceline/train/context.h"

// So that the compiler can say what to do.
template <>
struct nlohmann::adl_serializer<at::Tensor> {
  template <class Target, class Tensor>
  static void to_json(Target&, const Tensor&) {
    static_assert(!std::is_same_v<Tensor, at::Tensor>,
                  "a tensor is no metric and no configuration value; give its number: loss.item<double>()");
  }
};

namespace paceline {

/// sum, mean, min, max, product: `paceline::ReduceOp::mean`.
using comm::ReduceOp;

/// How a reported checkpoint's files get into the run's folder. Ranks may use different modes.
enum class CheckpointUploadMode {
  /// report() returns when this rank's files are durable. If the run is in an object store, it returns when the whole
  /// checkpoint, with the files of all ranks, is published there.
  sync,
  /// report() returns at once; a thread uploads the files while training continues. A rank has at most two checkpoints
  /// in progress: a third report() waits for the first. The files must not change until the upload is done. If the
  /// upload fails, the attempt fails with the cause.
  async,
  /// The files are in the run's folder already and stay where they are: in a folder directly below
  /// get_context().get_storage(), whose name becomes the checkpoint's. report() returns at once; a thread reads each
  /// file once, for its checksum. The folder must not change any more. Not for runs in object stores.
  no_upload
};

/// Uploads the files of `checkpoint` into a folder directly below get_context().get_storage(), and returns that folder
/// as a Checkpoint::from_directory(). `dir_name` is the name that the folder should have. With
/// CheckpointUploadMode::async it runs on a separate thread, so everything that it captures must be safe to use there.
/// An exception fails the report.
using CheckpointUploadFn = std::function<Checkpoint(const Checkpoint& checkpoint, const std::string& dir_name)>;

/// Options of report().
struct ReportOptions {
  /// How to combine the ranks' numbers for Result::metrics, the history and callbacks: "mean", "sum", "min" or "max";
  /// "" uses rank 0's. All ranks must give the same.
  std::string reduce;
  /// How this rank's files get into the run's folder.
  CheckpointUploadMode checkpoint_upload_mode = CheckpointUploadMode::sync;
  /// Whether the local folder of the checkpoint is deleted once it is published. By default only with async, and only a
  /// folder of the user's own outside the run's folder. The files of Checkpoint::save() are always moved. Throws
  /// ConfigError for a folder that contains the run's folder or is inside it, and with no_upload.
  std::optional<bool> delete_local_checkpoint_after_upload;
  /// The user's own function to upload the files. The ranks that have files call it, with sync or async. Not for runs
  /// in object stores.
  CheckpointUploadFn checkpoint_upload_fn;
  /// Name of the checkpoint's folder; "" for checkpoint_000042 with the report's number. If several ranks give a name,
  /// the lowest rank's counts. If an earlier report of the run has used it, this report's checkpoint replaces that one
  /// at once.
  std::string checkpoint_dir_name;
  /// Validates the checkpoint in the background once it is published (train/validation.h). If several ranks ask for it,
  /// the lowest rank's options count. Throws ConfigError without a checkpoint, and if the trainer has no
  /// ValidationConfig.
  std::optional<ValidationTaskConfig> validation;
};

/// Reports metrics and, optionally, a checkpoint. Report k consists of the k-th call on each rank.
///
/// Metrics alone are queued: the call takes microseconds, the order is kept, and the metrics of all ranks are stored.
/// With a checkpoint the call blocks this rank until its own files are durable (see CheckpointUploadMode for other
/// ways). The checkpoint is published once every rank's k-th report has arrived. Not every rank has to hand over files.
/// The files of several ranks are merged; if names are equal, the lowest rank's file is kept.
///
/// A checkpoint of Checkpoint::save() can be reported once, since its files move into the published checkpoint. A
/// folder of the user's own (Checkpoint::from_directory) is copied and may be reported again. When the train loop
/// returns, the worker waits for uploads in progress.
///
/// Throws StorageError if the files cannot be written, ConfigError for `options` that are not allowed, UsageError for a
/// saved checkpoint that was reported already or that a later save() has replaced, and Stopped when the run is being
/// stopped.
///
///     report({{"loss", loss}, {"epoch", epoch}}, Checkpoint::save(model, optimizer));
///     report({{"accuracy", accuracy}}, std::nullopt, {.reduce = "mean"});
void report(const Metrics& metrics, const std::optional<Checkpoint>& checkpoint = std::nullopt,
            const ReportOptions& options = {});

/// Whether somebody has asked for a checkpoint now, with `paceline checkpoint now RUN` or in the dashboard: then save
/// one and report it. All ranks hear of it at the same of their calls, so every rank must call this equally often;
/// where nobody asks, a call costs well below a microsecond. Throws Stopped when the run is being stopped.
///
///     if (checkpoint_requested() || step % 1000 == 0) report(metrics, Checkpoint::save(model, optimizer));
bool checkpoint_requested();

/// This worker's place in the run.
TrainContext get_context();
/// The latest published checkpoint: at the start the one to resume from; nullopt if the run has none. After a report
/// with a checkpoint (not with CheckpointUploadMode::async) it waits until that one is published, which it is when
/// every rank has made that report. Throws CollectiveError when that takes longer than TorchConfig.timeout_s.
std::optional<Checkpoint> get_checkpoint();
/// How far get_all_reported_checkpoints() waits.
enum class CheckpointConsistencyMode {
  /// Waits until every rank has made this rank's last report, and all checkpoints up to it are published.
  committed,
  /// Waits until their validations have ended too.
  validated
};

/// How far a reported checkpoint has come.
using ReportedCheckpointStatus = CheckpointStatus;

/// A checkpoint of a report, as get_all_reported_checkpoints() returns it.
struct ReportedCheckpoint {
  /// Published, and kept until retention deletes it.
  Checkpoint checkpoint;
  /// Rank 0's, those of the validation among them.
  Metrics metrics;
  /// What has become of its validation.
  ReportedCheckpointStatus status = ReportedCheckpointStatus::committed;
};

/// The checkpoints of this run that are kept, the worst first (by CheckpointConfig.checkpoint_score_attribute; without
/// one the oldest first). Waits as `mode` says, but at most `timeout_s` seconds, and then returns what there is. Not a
/// collective: not every rank needs to call it. Throws Stopped when the run is being stopped.
///
///     const auto all = get_all_reported_checkpoints(CheckpointConsistencyMode::validated, 600);
///     if (!all.empty()) all.back().checkpoint.load(model);   // the best
std::vector<ReportedCheckpoint> get_all_reported_checkpoints(
    CheckpointConsistencyMode mode = CheckpointConsistencyMode::validated,
    std::optional<double> timeout_s = std::nullopt);
/// Where this worker computes: its GPU with use_gpu, else the CPU.
torch::Device get_device();
/// All devices of this worker: two GPUs with ScalingConfig.resources_per_worker {"GPU": 2}.
std::vector<torch::Device> get_devices();

/// Waits for all ranks. After TorchConfig::timeout_s seconds it throws CollectiveError, which names the missing ranks.
void barrier();
/// Returns rank 0's value on every rank. Every rank must call it; it is meant for small values (kilobytes). Throws
/// CollectiveError if rank 0 sends none within TorchConfig::timeout_s seconds.
///
///     const auto order = broadcast_from_rank_zero(draw_order()).get<std::vector<int64_t>>();
Json broadcast_from_rank_zero(const Json& value);
/// Seeds LibTorch on this worker and asks for deterministic algorithms: operations that have none then throw
/// c10::Error. Call it first in the loop, since some GPU libraries read the setting only once. Random numbers of data
/// sets depend on their loader's seed instead (loader/collate.h).
void enable_reproducibility(uint64_t seed = 0);

/// Reduces `tensor` (any shape, equal on all ranks) over the ranks and returns the result; the argument is not changed.
/// Throws CollectiveError if a rank is gone, if the ranks' calls do not fit together (another call, shape or type,
/// which a small message beforehand finds), or if the type cannot be reduced in this way (the mean of integers).
///
///     const auto sums = all_reduce(torch::tensor({correct, seen}));
///     const auto loss_mean = all_reduce(loss, ReduceOp::mean);
torch::Tensor all_reduce(const torch::Tensor& tensor, ReduceOp op = ReduceOp::sum);
/// Returns the tensors of all ranks (equal shapes and types), by rank. Throws CollectiveError as all_reduce() does.
std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor);
/// Returns `root`'s tensor on every rank; shapes and types must be equal. The argument is not changed. Throws
/// CollectiveError as all_reduce() does, and if there is no rank `root`.
torch::Tensor broadcast(const torch::Tensor& tensor, int64_t root = 0);
/// c10d's process group, for everything that is not here; null in a world of one. The session owns it: it is valid
/// until the loop returns.
c10d::ProcessGroup* process_group();

/// Makes the current step void: drops the gradients of every model that prepare_model() has seen, so that
/// optimizer.step() changes nothing, and the loader gives the same batch again. Local: call it on every rank.
void void_step();
/// Says which step runs and whether it is void, for objects that count steps themselves.
///
///     optim::LRScheduler scheduler(optimizer, optim::cosine(1000), step_ledger());   // does not count void steps
std::shared_ptr<StepLedger> step_ledger();

/// Thrown out of report(), loaders and collectives when the run is being stopped. Do not catch it.
class Stopped : public Error {
 public:
  using Error::Error;
};

}  // namespace paceline
