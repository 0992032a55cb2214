// The driver program of the robustness tests: `scenarios NAME STORAGE [RUN]` runs one train loop that misbehaves.
#include <paceline/paceline.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace {

using paceline::Checkpoint;
using paceline::Config;

// True in the first attempt of a run only: misbehaviour that a restart cures.
bool first_attempt() {
  return paceline::get_context().get_attempt() == 1;
}

bool is_rank(int64_t rank) {
  return paceline::get_context().get_world_rank() == rank;
}

struct Sample {
  torch::Tensor input = torch::ones({8, 4});
  torch::Tensor target = torch::zeros({8, 2});
};

// Five steps of a small model with a checkpoint each; `misbehave` runs in step 3, after two published checkpoints.
void train(const std::function<void()>& misbehave) {
  torch::manual_seed(0);
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  int64_t start = 1;
  if (auto checkpoint = paceline::get_checkpoint()) {
    checkpoint->load(model, optimizer);
    const std::string name = std::filesystem::path(checkpoint->path()).filename();  // checkpoint_000002
    start = std::stoll(name.substr(name.rfind('_') + 1)) % 5 + 1;
    std::printf("continue from %s\n", std::filesystem::path(checkpoint->path()).filename().c_str());
  }
  const Sample sample;
  for (int64_t step = start; step <= 5; ++step) {
    if (step == 3) {
      paceline::barrier();  // every rank has made report 2
      misbehave();
    }
    auto loss = torch::mse_loss(model->forward(sample.input), sample.target);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    paceline::report({{"loss", loss.item<double>()}, {"step", step}}, Checkpoint::save(model, optimizer));
  }
}

void well() {
  train([] {});
}
void exception() {
  train([] {
    if (is_rank(1)) throw std::runtime_error("the disk of the data is gone");
  });
}
void exception_everywhere() {
  train([] { throw std::runtime_error("bad sample 12345"); });
}
void killed() {
  train([] {
    if (is_rank(1) && first_attempt()) ::raise(SIGKILL);
  });
}
void crash() {
  train([] {
    if (is_rank(1)) ::raise(SIGSEGV);
  });
}
void exit_early() {
  train([] {
    if (is_rank(0)) std::exit(0);
  });
}
void freeze() {
  train([] {
    if (is_rank(1) && first_attempt()) ::raise(SIGSTOP);
  });
}
void endless() {
  std::printf("looping\n");
  for (int64_t step = 1;; ++step) {
    paceline::report({{"step", step}});
    ::usleep(1000);
  }
}
// Computes without ever looking at Paceline: a stop cannot reach it.
void deaf() {
  std::printf("looping\n");
  volatile double sum = 0;
  while (true) sum = sum + 1;
}
void different_models() {
  paceline::prepare_model(torch::nn::Linear(4, is_rank(1) ? 3 : 2));
}
void uneven_reports() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  const int64_t reports = is_rank(0) ? 3 : 2;
  for (int64_t step = 1; step <= reports; ++step) paceline::report({{"step", step}}, Checkpoint::save(model));
}
void save_on_rank_zero_only() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  std::optional<Checkpoint> checkpoint;
  if (is_rank(0)) checkpoint = Checkpoint::save(model);
  paceline::report({{"step", 1}}, checkpoint);
}
void wrong_config(const Config& config) {
  config.get<int64_t>("rate");
}
void leaves_children() {
  if (::fork() == 0) {
    ::setsid();
    ::execlp("sleep", "sleep", "600", nullptr);
    ::_exit(1);
  }
  paceline::report({{"step", 1}});
}
void own_files(const Config& config) {
  const std::string folder =
      config.get<std::string>("scratch") + "/rank_" + std::to_string(paceline::get_context().get_world_rank());
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/whole_model.txt") << "model of rank " << paceline::get_context().get_world_rank();
  std::ofstream(folder + "/only_" + std::to_string(paceline::get_context().get_world_rank()) + ".txt") << "part";
  paceline::report({{"step", 1}}, Checkpoint::from_directory(folder));
}
paceline::Json returning(const Config&) {
  return {{"answer", 42 + paceline::get_context().get_world_rank()}};
}
void unregistered() {}

PACELINE_TRAIN_LOOP(well);
PACELINE_TRAIN_LOOP(exception);
PACELINE_TRAIN_LOOP(exception_everywhere);
PACELINE_TRAIN_LOOP(killed);
PACELINE_TRAIN_LOOP(crash);
PACELINE_TRAIN_LOOP(exit_early);
PACELINE_TRAIN_LOOP(freeze);
PACELINE_TRAIN_LOOP(endless);
PACELINE_TRAIN_LOOP(deaf);
PACELINE_TRAIN_LOOP(different_models);
PACELINE_TRAIN_LOOP(uneven_reports);
PACELINE_TRAIN_LOOP(save_on_rank_zero_only);
PACELINE_TRAIN_LOOP(wrong_config);
PACELINE_TRAIN_LOOP(leaves_children);
PACELINE_TRAIN_LOOP(own_files);
PACELINE_TRAIN_LOOP(returning);

class ThrowingCallback final : public paceline::UserCallback {
  void after_report(const paceline::RunContext&, const std::vector<paceline::Metrics>&, const Checkpoint*) override {
    throw std::runtime_error("the callback is broken");
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

}  // namespace

int main(int argc, char** argv) {
  die_once_in_start_up(::getenv("DIE_ONCE"));
  paceline::init(argc, argv);
  const std::string name = argv[1];
  const std::string storage = argv[2];
  const auto number = [](const char* variable, double otherwise) {
    const char* text = ::getenv(variable);
    return text == nullptr ? otherwise : std::atof(text);
  };
  try {
    paceline::TorchTrainerOptions options;
    options.train_loop_config = {{"rate", "fast"}, {"scratch", storage + "/scratch"}};
    options.scaling_config.num_workers = static_cast<int>(number("WORKERS", 2));
    options.run_config.name = argc > 3 ? std::optional<std::string>(argv[3]) : std::nullopt;
    options.run_config.storage_path = storage;
    options.run_config.failure_config.max_failures = static_cast<int64_t>(number("MAX_FAILURES", 0));
    options.run_config.failure_config.heartbeat_timeout_s = number("HEARTBEAT_TIMEOUT", 30);
    options.run_config.failure_config.stop_grace_s = number("STOP_GRACE", 5);
    if (::getenv("BROKEN_CALLBACK") != nullptr) {
      options.run_config.callbacks = {std::make_shared<ThrowingCallback>()};
    }
    const paceline::Result result = paceline::TorchTrainer(loop_named(name), options).fit();
    std::printf("state %s\n", result.state.c_str());
    std::printf("metrics %s\n", result.metrics.json().dump().c_str());
    std::printf("return value %s\n", result.return_value.dump().c_str());
    if (result.checkpoint) std::printf("checkpoint %s\n", result.checkpoint->path().c_str());
    return 0;
  } catch (const paceline::TrainingFailedError& error) {
    std::printf("TrainingFailedError: %s\n", error.what());
    if (error.result().checkpoint) std::printf("checkpoint %s\n", error.result().checkpoint->path().c_str());
    return 1;
  } catch (const paceline::Error& error) {
    std::printf("Error: %s\n", error.what());
    return 2;
  }
}
