#include "paceline/train/trainer.h"

#include <torch/torch.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <mutex>
#include <random>

#include "paceline/controller/controller.h"
#include "paceline/controller/launcher/local.h"
#include "paceline/core/error.h"
#include "paceline/storage/local.h"
#include "paceline/storage/run_lock.h"
#include "paceline/train/driver_internal.h"
#include "paceline/train/local_mode_internal.h"

namespace paceline {
namespace {

// "run_2026-11-21_08-05-09_4f3a91c2": unique between processes that start within one second.
std::string new_run_name() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[64];
  const size_t length = std::strftime(text, sizeof text, "run_%Y-%m-%d_%H-%M-%S", &local);
  std::snprintf(text + length, sizeof text - length, "_%08x", std::random_device{}());
  return text;
}

void refuse_what_cannot_run(const ScalingConfig& scaling) {
  if (scaling.use_tpu || scaling.topology) {
    throw ConfigError(std::string("ScalingConfig.") + (scaling.use_tpu ? "use_tpu" : "topology") +
                      " is set, but Paceline has no TPU support; use CPUs or use_gpu");
  }
  const auto gpus_wanted = scaling.resources_per_worker.find("GPU");
  if (!scaling.use_gpu && gpus_wanted != scaling.resources_per_worker.end() && gpus_wanted->second > 0) {
    throw ConfigError("ScalingConfig.resources_per_worker asks for GPUs but use_gpu is false; set use_gpu = true");
  }
  if (!scaling.use_gpu) return;
  const auto gpus = static_cast<int64_t>(torch::cuda::device_count());
  const int64_t workers = std::max<int64_t>(scaling.num_workers.max, 1);
  if (workers > gpus) {
    throw ConfigError("ScalingConfig.num_workers is " + std::to_string(workers) +
                      " with use_gpu, but this machine has " + std::to_string(gpus) + " GPU" + (gpus == 1 ? "" : "s") +
                      "; each worker needs one: lower num_workers or set use_gpu = false");
  }
}

// While it lives SIGINT goes to `stop`; the handler that was there comes back afterwards.
class InterruptGuard {
 public:
  explicit InterruptGuard(controller::StopSignal& stop) {
    signal_ = &stop;
    struct sigaction action{};
    action.sa_handler = [](int) { signal_->stop(); };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &action, &former_);
  }
  ~InterruptGuard() {
    ::sigaction(SIGINT, &former_, nullptr);
    signal_ = nullptr;
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  static inline controller::StopSignal* signal_ = nullptr;
  struct sigaction former_{};
};

std::string prepare_run_folder(const RunConfig& config) {
  const std::string directory = std::filesystem::current_path();
  const auto storage = value_or_throw(storage::resolve_folder(config.storage_path, directory));
  throw_if_error(storage::check_writable(storage));
  const std::string folder = storage + "/" + *config.name;
  throw_if_error(storage::make_folders(folder));
  return folder;
}

}  // namespace

TorchTrainer::TorchTrainer(TrainLoop loop, TorchTrainerOptions options)
    : loop_(loop), loop_name_(train_loop_name(loop)), options_(std::move(options)) {
  options_.scaling_config.validate();
  options_.run_config.validate();
  options_.run_config.failure_config.validate();
  options_.run_config.checkpoint_config.validate();
  options_.torch_config.validate();
  refuse_what_cannot_run(options_.scaling_config);
}

Result TorchTrainer::fit() {
  RunConfig config = options_.run_config;
  if (!config.name) config.name = new_run_name();
  const bool in_process = options_.scaling_config.num_workers.max == 0;
  if (!in_process && train::under_torchrun()) {
    throw UsageError("fit() with " + std::to_string(options_.scaling_config.num_workers.max) +
                     " workers was called in a process that torchrun started (RANK and WORLD_SIZE are set); set "
                     "num_workers = 0 to join torchrun's group, or start the program without torchrun");
  }
  const std::string start_from = options_.resume_from_checkpoint ? options_.resume_from_checkpoint->path() : "";
  if (in_process) {
    const std::string folder = prepare_run_folder(config);
    Json value = train::run_in_process({loop_, options_.train_loop_config, config, options_.scaling_config,
                                        options_.torch_config, folder, start_from});
    Result result = Result::from_path(folder);
    result.return_value = std::move(value);
    return result;
  }
  const auto& driver = train::driver();
  const std::string folder = prepare_run_folder(config);
  auto lock = storage::RunLock::acquire(folder);
  if (!lock.ok()) throw UsageError(lock.status().message());

  controller::RunRequest request;
  request.run_folder = folder;
  request.run_config = config;
  request.scaling_config = options_.scaling_config;
  request.torch_config = options_.torch_config;
  request.train_loop = loop_name_;
  request.train_loop_config = options_.train_loop_config.json();
  request.program = driver.program;
  request.directory = std::filesystem::current_path();
  if (!start_from.empty()) request.resume_from_checkpoint = start_from;

  const SystemClock clock;
  controller::LocalLauncher launcher(driver.guardian);
  controller::StopSignal stop;
  const InterruptGuard interrupts(stop);
  const auto outcome = value_or_throw(controller::run_to_end(request, launcher, clock, stop));
  Result result = Result::from_path(folder);
  if (outcome.state == controller::FinalState::errored) throw TrainingFailedError(outcome.error, std::move(result));
  return result;
}

}  // namespace paceline
