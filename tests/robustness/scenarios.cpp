// The driver program of the robustness tests: `scenarios NAME STORAGE [RUN]` runs the train loop of that name (see
// the files of loops); environment variables set what the run is configured with.
#include <paceline/paceline.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "tests/robustness/train_loops.h"

namespace {

using paceline::Checkpoint;
using paceline::Config;

paceline::Metrics look_at(const Checkpoint& checkpoint, const Config& config) {
  const auto step = config.get<int64_t>("step");
  std::printf("looking at %s\n", checkpoint.path().c_str());
  if (step == 3 && ::getenv("IN_PROCESS") == nullptr) ::raise(SIGKILL);
  if (step == 3) throw std::runtime_error("no data");
  if (step == 4 && ::getenv("IN_PROCESS") == nullptr) ::pause();
  torch::nn::Linear model(4, 2);
  checkpoint.load(model);
  return {{"bias", config.get<double>("bias")}};
}
PACELINE_VALIDATION(look_at);

void unregistered() {}

class ThrowingCallback final : public paceline::UserCallback {
  void after_report(const paceline::RunContext&, const std::vector<paceline::Metrics>&, const Checkpoint*) override {
    throw std::runtime_error("the callback is broken");
  }
};

class HangingCallback final : public paceline::UserCallback {
  void after_report(const paceline::RunContext&, const std::vector<paceline::Metrics>&, const Checkpoint*) override {
    sigset_t interrupt, before;  // one that comes before it is waited for shall wait too
    ::sigemptyset(&interrupt);
    ::sigaddset(&interrupt, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &interrupt, &before);
    for (int heard = 0; true; ++heard) {
      std::printf("hanging, interrupted %d times\n", heard);
      std::fflush(stdout);
      ::sigsuspend(&before);
    }
  }
};

paceline::TrainLoop loop_named(const std::string& name) {
  if (name == "unregistered") return unregistered;
  return paceline::find_train_loop(name);
}

// Dies before it joins, once: the file says whether it has happened.
void die_once_in_start_up(const char* marker) {
  struct stat status{};
  if (marker == nullptr || ::getenv("PACELINE_CHANNEL") == nullptr || ::stat(marker, &status) == 0) return;
  std::ofstream(marker) << "dead once";
  ::_exit(3);
}

void print(const paceline::Result& result) {
  std::printf("state %s\n", result.state.c_str());
  std::printf("folder %s\n", result.path.c_str());
  std::printf("metrics %s\n", result.metrics.json().dump().c_str());
  std::printf("return value %s\n", result.return_value.dump().c_str());
  if (result.checkpoint) std::printf("checkpoint %s\n", result.checkpoint->path().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  die_once_in_start_up(::getenv("DIE_ONCE"));
  paceline::testing::act_before_init();
  paceline::init(argc, argv);
  const std::string name = argv[1];
  const std::string storage = argv[2];
  const auto number = [](const char* variable, double otherwise) {
    const char* text = ::getenv(variable);
    return text == nullptr ? otherwise : std::stod(text);
  };
  try {
    if (name == "result") {  // of the run at STORAGE
      print(paceline::Result::from_path(storage));
      return 0;
    }
    paceline::TorchTrainerOptions options;
    options.train_loop_config = {{"rate", "fast"}, {"scratch", storage + "/scratch"}};
    options.scaling_config.num_workers = static_cast<int>(number("WORKERS", 2));
    if (const char* least = ::getenv("LEAST_WORKERS")) {
      options.scaling_config.num_workers = {std::stoi(least), options.scaling_config.num_workers.max};
    }
    if (::getenv("THREADS") != nullptr) options.scaling_config.threads_per_worker = number("THREADS", 1);
    if (const char* threads = ::getenv("WORKERS_OMP")) {
      options.run_config.worker_environment["OMP_NUM_THREADS"] = threads;
    }
    if (const char* path = ::getenv("RESUME_FROM")) options.resume_from_checkpoint = Checkpoint::from_directory(path);
    options.validation_config = paceline::ValidationConfig{.fn = look_at, .task_config = {.config = {{"bias", 2.5}}}};
    if (name == "dataset_rows") {
      options.datasets = {{"train", paceline::data::range(30).random_shuffle({.seed = 5})}};
    }
    options.run_config.name = argc > 3 ? std::optional<std::string>(argv[3]) : std::nullopt;
    options.run_config.storage_path = storage;
    options.run_config.failure_config.max_failures = static_cast<int64_t>(number("MAX_FAILURES", 0));
    options.run_config.failure_config.heartbeat_timeout_s = number("HEARTBEAT_TIMEOUT", 30);
    options.run_config.failure_config.stop_grace_s = number("STOP_GRACE", 5);
    paceline::DebugConfig& debug = options.run_config.debug_config;
    debug.hang_floor_s = number("HANG_FLOOR", debug.hang_floor_s);
    debug.hang_start_s = number("HANG_START", debug.hang_start_s);
    if (const char* action = ::getenv("HANG_ACTION")) debug.hang_action = action;
    if (const char* action = ::getenv("NAN_WATCH")) debug.nan_watch = action;
    if (const char* kind = ::getenv("TRACKERS")) options.run_config.trackers = {{.kind = kind}};
    if (::getenv("BROKEN_CALLBACK") != nullptr) {
      options.run_config.callbacks = {std::make_shared<ThrowingCallback>()};
    }
    if (::getenv("HANGING_CALLBACK") != nullptr) {
      options.run_config.callbacks = {std::make_shared<HangingCallback>()};
    }
    print(paceline::TorchTrainer(loop_named(name), options).fit());
    return 0;
  } catch (const paceline::TrainingFailedError& error) {
    if (::getenv("UNCAUGHT") != nullptr) throw;
    std::printf("TrainingFailedError: %s\n", error.what());
    if (error.result().checkpoint) std::printf("checkpoint %s\n", error.result().checkpoint->path().c_str());
    return 1;
  } catch (const paceline::Error& error) {
    if (const char* uncaught = ::getenv("UNCAUGHT")) {
      if (uncaught == std::string("other")) throw std::runtime_error("of the program's own");
      std::printf("what waits to be written");
      throw;
    }
    std::printf("Error: %s\n", error.what());
    return 2;
  }
}
