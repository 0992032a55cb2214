#include "paceline/train/trainer.h"

#include <torch/torch.h>

#include <filesystem>

#include "paceline/comm/group.h"
#include "paceline/controller/controller.h"
#include "paceline/controller/launcher/local.h"
#include "paceline/controller/run_folder.h"
#include "paceline/core/error.h"
#include "paceline/storage/location.h"
#include "paceline/storage/storage.h"
#include "paceline/track/run_store.h"
#include "paceline/track/tracker/tracker.h"
#include "paceline/train/driver_internal.h"
#include "paceline/train/interrupt_internal.h"
#include "paceline/train/launch_overrides_internal.h"
#include "paceline/train/local_mode_internal.h"
#include "paceline/train/run_folder_internal.h"
#include "paceline/train/session_internal.h"

namespace paceline {
namespace {

// Marks every executable that has a trainer: `paceline run` starts it once, as the driver (launch/driver_note.cpp).
struct DriverNote {
  uint32_t owner_bytes;
  uint32_t content_bytes;
  uint32_t type;
  char owner[12];
};
[[gnu::section(".note.paceline"), gnu::used]] alignas(4) const DriverNote driver_note{9, 0, 1, "Paceline"};

std::string count_text(int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

void refuse_missing_gpus(const ScalingConfig& scaling) {
  const int64_t gpus = torch::cuda::device_count();  // NOLINT(bugprone-signed-char-misuse)
  const int64_t each = gpus_per_worker(scaling);
  const bool in_process = scaling.num_workers.max == 0;
  const int64_t workers = in_process ? train::torchrun_local_world_size() : scaling.num_workers.max;
  if (workers * each <= gpus) return;
  const std::string who = in_process && workers == 1 ? "the train loop in the calling process (num_workers = 0)"
                          : in_process ? "torchrun's " + count_text(workers, "worker") + " on this machine"
                                       : "ScalingConfig.num_workers = " + std::to_string(workers);
  throw ConfigError(who + " with use_gpu and " + count_text(each, "GPU") + " each needs " +
                    count_text(workers * each, "GPU") + ", but this machine has " + count_text(gpus, "GPU") +
                    (workers == 1 ? "" : "; use fewer workers") + "; or set use_gpu = false");
}

void refuse_what_cannot_run(const ScalingConfig& scaling, const TorchConfig& torch_config) {
  if (scaling.use_tpu || scaling.topology) {
    throw ConfigError(std::string("ScalingConfig.") + (scaling.use_tpu ? "use_tpu" : "topology") +
                      " is set, but Paceline has no TPU support; use CPUs or use_gpu");
  }
  const auto gpus_wanted = scaling.resources_per_worker.find("GPU");
  if (!scaling.use_gpu && gpus_wanted != scaling.resources_per_worker.end() && gpus_wanted->second > 0) {
    throw ConfigError("ScalingConfig.resources_per_worker asks for GPUs but use_gpu is false; set use_gpu = true");
  }
  if (!scaling.use_gpu && torch_config.backend == "nccl") {
    throw ConfigError(
        "TorchConfig.backend is \"nccl\", which carries GPU tensors only, but ScalingConfig.use_gpu is false; set "
        "use_gpu = true or backend = \"gloo\"");
  }
  if (!scaling.use_gpu) return;
  refuse_missing_gpus(scaling);
  if (torch_config.backend.value_or("nccl") == "nccl" && !comm::backend_is_available("nccl")) {
    throw ConfigError(
        "use_gpu takes TorchConfig.backend \"nccl\", but this build of LibTorch has no NCCL; set backend = "
        "\"gloo\", or use LibTorch for CUDA");
  }
}

void refuse_missing_rank(const std::optional<int64_t>& debug_rank, int64_t workers) {
  if (!debug_rank) return;
  if (workers == 0) {
    throw ConfigError("DebugConfig.debug_rank is set, but ScalingConfig.num_workers is 0: run the program under gdb");
  }
  if (*debug_rank >= workers) {
    throw ConfigError("DebugConfig.debug_rank is " + std::to_string(*debug_rank) + "; allowed: 0 to " +
                      std::to_string(workers - 1) + ", ScalingConfig.num_workers is " + std::to_string(workers));
  }
}

// The folder of the checkpoint to start from, "" for none.
std::string checkpoint_to_start_from(const std::optional<Checkpoint>& checkpoint) {
  if (!checkpoint) return "";
  std::error_code error;
  const bool is_there = storage::is_uri(checkpoint->path())
                            ? !value_or_throw(value_or_throw(storage::open_storage(checkpoint->path()))->list()).empty()
                            : std::filesystem::is_directory(checkpoint->path(), error);
  if (!is_there) {
    throw StorageError("TorchTrainerOptions.resume_from_checkpoint is \"" +
                       storage::without_secrets(checkpoint->path()) +
                       "\", but there is no such folder; was the checkpoint deleted, or superseded by later ones?");
  }
  return checkpoint->path();
}

// A storage that has made the run fail may not tell its result either.
Result result_of(const std::string& location, controller::FinalState state, const std::string& error) {
  const bool failed = state == controller::FinalState::errored;
  Result result;
  try {
    result = Result::from_path(location);
  } catch (const Error&) {
    if (!failed) throw;
    result.path = location;
    result.state = "errored";
    result.error = error;
  }
  if (failed) throw TrainingFailedError(error, std::move(result));
  return result;
}

}  // namespace

TorchTrainer::TorchTrainer(TrainLoop loop, TorchTrainerOptions options)
    : loop_(loop), loop_name_(train_loop_name(loop)), options_(std::move(options)) {
  train::override_with(train::launch_overrides(), options_.scaling_config, options_.run_config);
  options_.scaling_config.validate();
  options_.run_config.validate();
  options_.run_config.failure_config.validate();
  options_.run_config.debug_config.validate();
  options_.run_config.checkpoint_config.validate();
  for (const TrackerConfig& tracker : options_.run_config.trackers) {
    tracker.validate();
    throw_if_error(track::check_tracker(tracker));
  }
  options_.torch_config.validate();
  if (options_.validation_config) {
    options_.validation_config->validate();
    validation_name_ = validation_name(options_.validation_config->fn);
  }
  refuse_what_cannot_run(options_.scaling_config, options_.torch_config);
  refuse_missing_rank(options_.run_config.debug_config.debug_rank, options_.scaling_config.num_workers.max);
}

Result TorchTrainer::fit() {
  const bool in_process = options_.scaling_config.num_workers.max == 0;
  if (!in_process && train::under_torchrun()) {
    throw UsageError("fit() with " + std::to_string(options_.scaling_config.num_workers.max) +
                     " workers was called in a process that torchrun started (RANK and WORLD_SIZE are set); set "
                     "num_workers = 0 to join torchrun's group, or start the program without torchrun");
  }
  if (train::Session::current_or_null() != nullptr) {
    throw UsageError("fit() was called inside a train loop; call it in main(), after paceline::init()");
  }
  const std::string start_from = checkpoint_to_start_from(options_.resume_from_checkpoint);
  controller::StopSignal stop;
  const train::InterruptGuard interrupts(stop);
  return in_process ? fit_in_process(start_from, stop) : fit_with_workers(start_from, stop);
}

Result TorchTrainer::fit_in_process(const std::string& start_from, controller::StopSignal& stop) {
  const auto outcome =
      train::run_in_process({loop_, options_.train_loop_config, options_.run_config, options_.scaling_config,
                             options_.torch_config, options_.validation_config, start_from},
                            stop);
  return result_of(outcome.location, outcome.state, outcome.error);
}

Result TorchTrainer::fit_with_workers(const std::string& start_from, controller::StopSignal& stop) {
  const auto& driver = train::driver();
  controller::RunRequest request;
  request.run_config = options_.run_config;
  if (!request.run_config.name) request.run_config.name = controller::new_run_name();
  const controller::RunPlace place = train::prepare_run_place(request.run_config);
  request.run_folder = place.folder;
  request.location = place.location;
  const storage::RunLock lock = train::lock_run_folder(request.run_folder);
  request.run_store = track::user_run_store().ValueOr("");
  request.scaling_config = options_.scaling_config;
  request.torch_config = options_.torch_config;
  request.train_loop = loop_name_;
  request.train_loop_config = options_.train_loop_config.json();
  request.program = driver.program;
  request.directory = std::filesystem::current_path();
  if (options_.validation_config) {
    request.validation_fn = validation_name_;
    request.validation_task = options_.validation_config->task_config;
    request.max_validations = options_.validation_config->max_in_flight;
  }
  if (!start_from.empty()) request.resume_from_checkpoint = start_from;

  const SystemClock clock;
  controller::LocalLauncher launcher(driver.guardian);
  const auto outcome = value_or_throw(controller::run_to_end(request, launcher, clock, stop));
  return result_of(request.location, outcome.state, outcome.error);
}

}  // namespace paceline
