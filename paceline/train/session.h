// The functions that a train loop calls: report, context, checkpoint, collectives.
//
// They belong to the worker that runs the loop; called elsewhere they throw UsageError naming themselves. Threads that
// the loop starts may call them; calls of one rank's report() must not run at once, and collectives are called by one
// thread at a time, in the same order on every rank.
// When the run is being stopped, report(), save(), loaders and collectives throw Stopped, including calls that are
// waiting already.
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

/// How a reported checkpoint's files get into the run's folder. Ranks may differ.
enum class CheckpointUploadMode {
  /// report() returns when this rank's files are durable. Where the run is in an object store, that is when the whole
  /// checkpoint, with the files of all ranks, is published there.
  sync,
  /// report() returns at once; a thread uploads the files while training goes on. At most two checkpoints of a rank are
  /// under way: a third report() waits for the first. The files must stay unchanged until then. When it fails, the
  /// attempt fails with the cause.
  async,
  /// The files are in the run's folder already and stay where they are: in a folder right below
  /// get_context().get_storage(), whose name becomes the checkpoint's. report() returns at once; a thread reads each
  /// file once, for its checksum. The folder must not change any more. Not for runs in object stores.
  no_upload
};

/// Uploads the files of `checkpoint` into a folder right below get_context().get_storage() and returns that folder, as
/// Checkpoint::from_directory(). `dir_name` is the name that the folder should have. With CheckpointUploadMode::async
/// it runs on a thread of its own, so what it captures must be safe to use there. An exception fails the report.
using CheckpointUploadFn = std::function<Checkpoint(const Checkpoint& checkpoint, const std::string& dir_name)>;

/// Options of report().
struct ReportOptions {
  /// How the ranks' numbers become one in Result::metrics, the history and for callbacks: "mean", "sum", "min", "max",
  /// or "" for rank 0's. All ranks give the same.
  std::string reduce;
  /// How this rank's files get into the run's folder.
  CheckpointUploadMode checkpoint_upload_mode = CheckpointUploadMode::sync;
  /// Whether the local folder of the checkpoint is deleted once it is published. By default only with async, and
  /// only a folder of the user's own outside the run's folder. What Checkpoint::save() gives is always moved.
  /// ConfigError for a folder that holds the run's folder or is in it, and with no_upload.
  std::optional<bool> delete_local_checkpoint_after_upload;
  /// The user's own function that uploads the files; called on the ranks that have files, with sync or async. Not for
  /// runs in object stores.
  CheckpointUploadFn checkpoint_upload_fn;
  /// Name of the checkpoint's folder; "" for checkpoint_000042 with the report's number. Of the ranks that give one the
  /// lowest counts. A run uses a name once: a checkpoint is never replaced.
  std::string checkpoint_dir_name;
  /// Validates the checkpoint on the side once it is published (train/validation.h); of the ranks that ask for it the
  /// lowest counts. ConfigError without a checkpoint, and when the trainer has no ValidationConfig.
  std::optional<ValidationTaskConfig> validation;
};

/// Hands over metrics and, optionally, a checkpoint. Report k is each rank's k-th call.
///
/// Metrics alone are queued: the call takes microseconds, order is kept, those of all ranks are stored. With a
/// checkpoint the call blocks this rank until its own files are durable (CheckpointUploadMode has other ways); the
/// checkpoint is published once every rank's k-th report has arrived. Ranks may differ in whether they hand over files;
/// what several hand over is merged, the lowest rank winning where names are equal. What Checkpoint::save() gives is
/// reported once: its files move into the published checkpoint. A folder of the user's own (Checkpoint::from_directory)
/// is copied and may be reported again. The train loop's return waits for what is still on its way. Throws StorageError
/// when the files cannot be written, ConfigError for `options`, UsageError for a saved checkpoint that was reported
/// already or that a later save() has replaced, Stopped when the run is being stopped.
///
///     report({{"loss", loss}, {"epoch", epoch}}, Checkpoint::save(model, optimizer));
///     report({{"accuracy", accuracy}}, std::nullopt, {.reduce = "mean"});
void report(const Metrics& metrics, const std::optional<Checkpoint>& checkpoint = std::nullopt,
            const ReportOptions& options = {});

/// This worker's place in the run.
TrainContext get_context();
/// The latest published checkpoint: at the start the one to continue from; nullopt in a run that has none.
std::optional<Checkpoint> get_checkpoint();
/// How far get_all_reported_checkpoints() waits.
enum class CheckpointConsistencyMode {
  /// Until every rank has made this rank's last report, and all checkpoints up to it are published.
  committed,
  /// Until their validations have ended too.
  validated
};

/// How far a reported checkpoint has come.
using ReportedCheckpointStatus = CheckpointStatus;

/// A checkpoint that a report has brought, as get_all_reported_checkpoints() gives it.
struct ReportedCheckpoint {
  /// Published, and kept until retention deletes it.
  Checkpoint checkpoint;
  /// Rank 0's, those of the validation among them.
  Metrics metrics;
  /// What has become of its validation.
  ReportedCheckpointStatus status = ReportedCheckpointStatus::committed;
};

/// The checkpoints of this run that are kept, the worst first (CheckpointConfig.checkpoint_score_attribute; without one
/// the oldest first). Waits for what `mode` says, at most `timeout_s` seconds; then it gives what there is. Not a
/// collective: ranks may call it or not. Throws Stopped when the run is being stopped.
///
///     const auto all = get_all_reported_checkpoints(CheckpointConsistencyMode::validated, 600);
///     if (!all.empty()) all.back().checkpoint.load(model);   // the best
std::vector<ReportedCheckpoint> get_all_reported_checkpoints(
    CheckpointConsistencyMode mode = CheckpointConsistencyMode::validated,
    std::optional<double> timeout_s = std::nullopt);
/// Where this worker computes: its GPU with use_gpu, else the CPU.
torch::Device get_device();
/// All devices of this worker: with ScalingConfig.resources_per_worker {"GPU": 2} two GPUs.
std::vector<torch::Device> get_devices();

/// Waits for all ranks. CollectiveError naming the missing ranks after TorchConfig::timeout_s seconds.
void barrier();
/// Rank 0's value, on every rank. Every rank calls it; meant for small values (kilobytes). CollectiveError when rank 0
/// sends none within TorchConfig::timeout_s seconds.
///
///     const auto order = broadcast_from_rank_zero(draw_order()).get<std::vector<int64_t>>();
Json broadcast_from_rank_zero(const Json& value);
/// Seeds LibTorch on this worker and asks for deterministic algorithms: operations that have none throw c10::Error
/// then. Call it first in the loop: some GPU libraries read the setting once. What data sets draw depends on their
/// loader's seed instead (loader/collate.h).
void enable_reproducibility(uint64_t seed = 0);

/// Reduces `tensor` (any shape, equal on all ranks) over the ranks and returns it; the argument is not changed.
/// CollectiveError when a rank is gone, when the ranks' calls do not fit together (another call, shape or type, which a
/// small message before it finds), or for a type that cannot be reduced so (the mean of integers).
///
///     const auto sums = all_reduce(torch::tensor({correct, seen}));
///     const auto loss_mean = all_reduce(loss, ReduceOp::mean);
torch::Tensor all_reduce(const torch::Tensor& tensor, ReduceOp op = ReduceOp::sum);
/// The ranks' tensors (equal shapes and types), by rank. CollectiveError as all_reduce().
std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor);
/// `root`'s tensor, on every rank; shapes and types must be equal. The argument is not changed. CollectiveError as
/// all_reduce(), and when there is no rank `root`.
torch::Tensor broadcast(const torch::Tensor& tensor, int64_t root = 0);
/// c10d's process group, for what is not here; null in a world of one. Owned by the session: valid until the loop
/// returns.
c10d::ProcessGroup* process_group();

/// Declares the step that runs void: gradients of every model that prepare_model() has seen are dropped, so that
/// optimizer.step() changes nothing, and the loader hands out the same batch again. Local: call it on every rank.
void void_step();
/// Which step runs, and whether it is void: for what counts steps itself.
///
///     optim::LRScheduler scheduler(optimizer, optim::cosine(1000), step_ledger());   // does not count void steps
std::shared_ptr<StepLedger> step_ledger();

/// Thrown out of report(), loaders and collectives when the run is being stopped. Let it pass.
class Stopped : public Error {
 public:
  using Error::Error;
};

}  // namespace paceline
