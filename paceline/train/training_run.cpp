#include "paceline/train/training_run.h"

#include <torch/torch.h>

#include <csignal>
#include <filesystem>
#include <mutex>
#include <utility>
#include <vector>

#include "paceline/comm/backend.h"
#include "paceline/controller/controller.h"
#include "paceline/controller/dashboard_process.h"
#include "paceline/controller/launcher/launcher.h"
#include "paceline/controller/launcher/ray.h"
#include "paceline/controller/worker_process.h"
#include "paceline/core/error.h"
#include "paceline/core/posix/program_path.h"
#include "paceline/storage/storage.h"
#include "paceline/track/tracker/tracker.h"
#include "paceline/train/driver.h"
#include "paceline/train/in_process/run_in_process_internal.h"
#include "paceline/train/launch_overrides_internal.h"
#include "paceline/train/worker/language_runtime.h"
#include "paceline/train/worker/session_internal.h"

namespace paceline::train {
namespace {

std::string count_text(int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string own_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

// On this machine.
int64_t workers_of(const ScalingConfig& scaling) {
  return scaling.num_workers.max == 0 ? torchrun_local_world_size() : scaling.num_workers.max;
}

bool workers_share_a_gpu(const ScalingConfig& scaling) {
  return scaling.use_gpu && gpus_for(workers_of(scaling), gpus_per_worker(scaling)) < workers_of(scaling);
}

void refuse_missing_gpus(const ScalingConfig& scaling) {
  const int64_t gpus = torch::cuda::device_count();  // NOLINT(bugprone-signed-char-misuse)
  const double each = gpus_per_worker(scaling);
  const bool in_process = scaling.num_workers.max == 0;
  const int64_t workers = workers_of(scaling);
  const int64_t needed = gpus_for(workers, each);
  if (needed <= gpus) return;
  const std::string who = in_process && workers == 1 ? "the train loop in the calling process (num_workers = 0)"
                          : in_process ? "torchrun's " + count_text(workers, "worker") + " on this machine"
                                       : "ScalingConfig.num_workers = " + std::to_string(workers);
  throw ConfigError(who + " with use_gpu and " + gpus_text(each) + " each needs " + count_text(needed, "GPU") +
                    ", but this machine has " + count_text(gpus, "GPU") + (workers == 1 ? "" : "; use fewer workers") +
                    "; or set use_gpu = false");
}

// Of other machines their agents say what GPUs they have.
bool trains_on_this_machine(const ScalingConfig& scaling) {
  return scaling.num_workers.max == 0 || controller::engine_of(scaling) == "local";
}

c10::DeviceType device_of(const ScalingConfig& scaling) {
  return scaling.use_gpu ? torch::kCUDA : torch::kCPU;
}

void refuse_wrong_backend(const TrainingRun& run) {
  const bool use_gpu = run.scaling_config.use_gpu;
  const bool shared = workers_share_a_gpu(run.scaling_config);
  const c10::DeviceType device = device_of(run.scaling_config);
  const std::string name = backend_of(run);
  if (name.empty()) {
    throw ConfigError("TorchConfig.backend is \"" + *run.torch_config.backend + "\", which has none for " +
                      (use_gpu ? "GPUs" : "CPUs") + ", but ScalingConfig.use_gpu is " + (use_gpu ? "true" : "false"));
  }
  const comm::Backend& backend = *comm::find_backend(name);
  if (shared && !backend.shares_devices) {
    throw ConfigError("TorchConfig.backend is \"" + name + "\", which wants a GPU for each rank, but workers with " +
                      gpus_text(gpus_per_worker(run.scaling_config)) +
                      " each share one; leave backend out, or give each worker a GPU of its own");
  }
  const std::string others = comm::backends_for(device);
  if (!backend.takes(device)) {
    throw ConfigError("TorchConfig.backend is \"" + name + "\", which does not carry " + (use_gpu ? "GPU" : "CPU") +
                      " tensors, but ScalingConfig.use_gpu is " + (use_gpu ? "true" : "false") +
                      "; set use_gpu = " + (use_gpu ? "false" : "true") + " or backend = " + others);
  }
  if (backend.is_built_in()) return;
  throw ConfigError(std::string(use_gpu ? "use_gpu takes" : "the workers take") + " TorchConfig.backend \"" + name +
                    "\", but this build does not have it: it needs " + std::string(backend.missing) +
                    "; set backend = " + others);
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

void refuse_missing_code(const RunConfig& config) {
  std::error_code error;
  if (!config.working_dir.empty() && !std::filesystem::is_directory(config.working_dir, error)) {
    throw ConfigError("RunConfig.working_dir is \"" + config.working_dir + "\", but there is no such folder");
  }
  for (const std::string& module : config.py_modules) {
    if (std::filesystem::exists(module, error)) continue;
    throw ConfigError("RunConfig.py_modules has \"" + module + "\", but there is no such file or folder");
  }
}

// The folder of the checkpoint to start from, "" for none.
storage::Location checkpoint_to_start_from(const std::optional<Checkpoint>& checkpoint) {
  if (!checkpoint) return "";
  std::error_code error;
  const storage::Location& location = CheckpointAccess::location(*checkpoint);
  const bool is_there = location.is_uri()
                            ? !value_or_throw(value_or_throw(storage::open_storage(location))->list()).empty()
                            : std::filesystem::is_directory(location.text(), error);
  if (!is_there) {
    throw StorageError("TorchTrainerOptions.resume_from_checkpoint is \"" + location +
                       "\", but there is no such folder; was the checkpoint deleted, or superseded by later ones?");
  }
  return location;
}

// A storage that has made the run fail may not tell its result either.
Result result_of(const storage::Location& location, const CheckpointConfig& config, FinalState state,
                 const std::string& error) {
  const bool failed = state == FinalState::errored;
  Result result;
  try {
    result = Result::from_path(location.with_credentials());
  } catch (const Error&) {
    if (!failed) throw;
    result.path = location.text();
    result.location = location;
    result.state = to_string(state);
    result.error = error;
  }
  // The latest stays on the disk for the next attempt even if it is none of the best.
  auto& best = result.best_checkpoints;
  if (const auto keep = config.num_to_keep; keep && std::cmp_greater(best.size(), *keep)) {
    best.erase(best.begin(), best.end() - *keep);
  }
  if (failed) throw TrainingFailedError(error, std::move(result));
  return result;
}

Result fit_in_process(const TrainingRun& run, const storage::Location& start_from, controller::StopSignal& stop) {
  const LocalOutcome outcome = run_in_process(run, start_from, stop);
  return result_of(outcome.location, run.run_config.checkpoint_config, outcome.state, outcome.error);
}

Result fit_with_workers(const TrainingRun& run, const storage::Location& start_from, controller::StopSignal& stop) {
  const Driver& driver = train::driver();
  ScalingConfig scaling = run.scaling_config;
  // Python's driver has reserved them by now, and has said where to listen.
  std::unique_ptr<controller::RayMachines> machines;
  if (controller::engine_of(scaling) == "ray" && scaling.token_file.empty()) {
    machines = value_or_throw(controller::RayMachines::reserve(scaling, run.run_config.failure_config, stop));
  }
  controller::TakenRun taken = take_run(run, start_from);
  controller::RunRequest& request = taken.request;
  request.scaling_config = scaling;
  const StartMethod start = for_environment(driver.start, controller::worker_environment(request.run_config));
  request.start = {
      .program = driver.program, .fork = start.forks, .fork_server = driver.fork_server, .note = start.note};

  const SystemClock clock;
  const auto launcher = value_or_throw(
      controller::make_launcher({driver.guardian, request.scaling_config, request.run_config.failure_config}));
  const auto outcome = value_or_throw(controller::run_to_end(request, *launcher, clock, stop));
  return result_of(request.location, run.run_config.checkpoint_config, outcome.state, outcome.error);
}

// The program's, for all its runs.
arrow::Result<std::string> serve_dashboard() {
  static std::mutex mutex;
  static std::optional<controller::DashboardProcess> process;
  const std::lock_guard lock(mutex);
  if (!is_driver()) return arrow::Status::Invalid("the program has not called paceline::init(argc, argv)");
  if (process && process->is_running()) return process->url();
  process.reset();
  const std::string program = driver().paceline.empty() ? paceline_program() : driver().paceline;
  ARROW_ASSIGN_OR_RAISE(process, controller::DashboardProcess::start(driver().guardian, program));
  return process->url();
}

}  // namespace

controller::TakenRun take_run(const TrainingRun& run, const storage::Location& start_from) {
  auto taken = controller::take_run(run.run_config, run.program.empty() ? own_program() : run.program);
  if (taken.status().IsAlreadyExists()) throw UsageError(taken.status().message());
  controller::TakenRun result = value_or_throw(std::move(taken));
  controller::RunRequest& request = result.request;
  request.scaling_config = run.scaling_config;
  request.torch_config = run.torch_config;
  request.versions = run.versions.empty() ? versions_of_program() : run.versions;
  request.train_loop = run.loop_name;
  request.train_loop_config = run.train_loop_config.json();
  request.attachment = run.attachment;
  request.has_datasets = run.has_datasets;
  request.take_exception = run.take_exception;
  request.validation_fn = run.validation_name;
  request.validation_task = run.validation_task;
  request.max_validations = run.max_validations;
  request.standard_output = run.standard_output;
  request.standard_error = run.standard_error;
  request.serve_dashboard = serve_dashboard;
  request.take_page = run.take_page;
  if (!start_from.empty()) request.resume_from_checkpoint = start_from;
  return result;
}

std::string backend_of(const TrainingRun& run) {
  const c10::DeviceType device = device_of(run.scaling_config);
  if (run.torch_config.backend) return std::string(comm::backend_for(*run.torch_config.backend, device));
  return std::string(comm::default_backend(device, workers_share_a_gpu(run.scaling_config)).name);
}

void prepare(TrainingRun& run) {
  override_with(launch_overrides(), run.scaling_config, run.run_config);
  run.scaling_config.validate();
  refuse_impossible(run.scaling_config);
  run.run_config.validate();
  run.run_config.failure_config.validate();
  run.run_config.debug_config.validate();
  run.run_config.checkpoint_config.validate();
  for (const TrackerConfig& tracker : run.run_config.trackers) {
    tracker.validate();
    throw_if_error(track::check_tracker(tracker));
  }
  run.torch_config.validate();
  if (!run.torch_config.backend && workers_share_a_gpu(run.scaling_config)) {
    run.torch_config.backend = backend_of(run);  // the workers do not know who shares
  }
  check_field("ValidationConfig", "max_in_flight", run.max_validations, at_least(1));
  run.validation_task.validate();
  if (run.scaling_config.use_gpu && trains_on_this_machine(run.scaling_config)) refuse_missing_gpus(run.scaling_config);
  refuse_wrong_backend(run);
  refuse_missing_code(run.run_config);
  refuse_missing_rank(run.run_config.debug_config.debug_rank, run.scaling_config.num_workers.max);
}

Result fit(const TrainingRun& run) {
  if (Session::current_or_null() != nullptr) {
    throw UsageError(
        "fit() was called inside a train loop; call it in the driver, where no worker is running this code");
  }
  const bool in_process = run.scaling_config.num_workers.max == 0;
  if (!in_process && under_torchrun()) {
    if (std::getenv("PACELINE_STORE") != nullptr) {
      throw UsageError(
          "fit() was called in a rank that `paceline run` started, but it starts its workers itself: give `paceline "
          "run` "
          "--driver, or start the program without it. On a Ray cluster: ray job submit");
    }
    throw UsageError("fit() with " + std::to_string(run.scaling_config.num_workers.max) +
                     " workers was called in a process that torchrun started (RANK and WORLD_SIZE are set); set "
                     "num_workers = 0 to join torchrun's group, or start the program without torchrun");
  }
  const storage::Location start_from = checkpoint_to_start_from(run.resume_from_checkpoint);
  controller::StopSignal stop;
  // A rank of torchrun's that lives on after SIGTERM would hold up its launcher.
  std::vector<int> unless_handled = under_torchrun() ? std::vector<int>{} : std::vector{SIGTERM};
  // sbatch --signal=B:USR1@90: the job's time is over soon.
  if (std::getenv("SLURM_JOB_ID") != nullptr) unless_handled.push_back(SIGUSR1);
  const controller::StopHandlers handlers(stop, {SIGINT}, unless_handled);
  return in_process ? fit_in_process(run, start_from, stop) : fit_with_workers(run, start_from, stop);
}

}  // namespace paceline::train
