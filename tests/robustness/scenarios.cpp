// The driver program of the robustness tests: `scenarios NAME STORAGE [RUN]` runs one train loop, most of which
// misbehave.
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
// Rank 0 waits for a rank that never comes: only a stop ends that.
void waits_in_barrier() {
  if (is_rank(0)) {
    std::printf("waiting\n");
    paceline::barrier();
  }
  while (true) {
    paceline::report({{"step", 1}});
    ::usleep(1000);
  }
}
void reports_twice() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  const auto checkpoint = Checkpoint::save(model);
  paceline::report({{"step", 1}}, checkpoint);
  paceline::report({{"step", 2}}, checkpoint);
}
// Saves that are never reported must not pile up.
paceline::Json saves_in_vain() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  for (int i = 0; i < 5; ++i) Checkpoint::save(model);
  if (!is_rank(0)) return {};  // rank 0 writes
  int64_t folders = 0;
  const std::string staging = paceline::get_context().get_storage() + "/.staging";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(staging)) {
    if (entry.is_directory() && entry.path().filename().string().rfind("report_", 0) == 0) ++folders;
  }
  return folders;
}

class Samples : public torch::data::Dataset<Samples> {
 public:
  explicit Samples(size_t size = 7) : size_(size) {}
  torch::data::Example<> get(size_t index) override {
    if (index >= size_) throw std::runtime_error("sample " + std::to_string(index) + " is torn");
    return {torch::ones({1}), torch::full({1}, static_cast<int64_t>(index))};
  }
  torch::optional<size_t> size() const override { return 7; }

 private:
  size_t size_;
};

void torn_sample() {
  auto loader = paceline::prepare_data_loader(Samples(3), {.batch_size = 1, .num_workers = 2});
  for (auto& batch : loader) (void)batch;
}
// What each function gives, on rank 0 of two.
paceline::Json session_functions() {
  const auto rank = paceline::get_context().get_world_rank();
  const auto own = torch::tensor({rank + 1, 10 * (rank + 1)});
  const auto as_json = [](const torch::Tensor& tensor) {
    const auto flat = tensor.contiguous();
    return paceline::Json(std::vector<int64_t>(flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + 2));
  };
  double seen = 0;
  auto loader = paceline::prepare_data_loader(Samples(), {.batch_size = 2, .evaluation = true});
  for (auto& [inputs, targets] : loader) seen += inputs.sum().item<double>();
  for (int i = 0; i < 3; ++i) paceline::barrier();
  paceline::Json said = paceline::Json::array();
  for (int i = 0; i < 3; ++i) said.push_back(paceline::broadcast_from_rank_zero({{"rank", rank}, {"turn", i}}));
  // Rank 1 tells what it heard.
  const bool heard = said[2] == paceline::Json({{"rank", 0}, {"turn", 2}});
  const auto heard_by = paceline::all_reduce(torch::tensor({heard ? 1 : 0}));
  const auto gathered = paceline::all_gather(own);
  return {{"sum", as_json(paceline::all_reduce(own))},
          {"max", as_json(paceline::all_reduce(own, paceline::ReduceOp::max))},
          {"own", as_json(own)},
          {"gathered", {as_json(gathered.at(0)), as_json(gathered.at(1))}},
          {"broadcast", as_json(paceline::broadcast(own, 1))},
          {"rows", paceline::all_reduce(torch::tensor({seen})).item<double>()},
          {"heard", heard_by.item<int64_t>()}};
}
// In the calling processes of a torchrun group.
paceline::Json meets(const Config& config) {
  const auto rank = paceline::get_context().get_world_rank();
  const std::string marker = config.get<std::string>("scratch") + "_rank_1_has_come";
  if (rank == 1) {
    ::usleep(200'000);  // a barrier that does not wait is caught then
    std::ofstream(marker) << "here";
  }
  paceline::barrier();
  if (!std::filesystem::exists(marker)) throw std::runtime_error("the barrier did not wait");
  std::printf("rank %ld heard %s\n", static_cast<long>(rank),
              paceline::broadcast_from_rank_zero("rank " + std::to_string(rank)).dump().c_str());
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  for (int64_t step = 1; step <= 3; ++step) {
    paceline::report({{"ranks", rank + 1}, {"step", step}}, Checkpoint::save(model), {.reduce = "sum"});
  }
  paceline::report({{"ranks", rank + 1}}, std::nullopt, {.reduce = "sum"});
  return {{"rank", rank}};
}
// Rank 0 must be able to make all its reports before rank 1 makes its first.
void slow_peer(const Config& config) {
  const std::string marker = config.get<std::string>("scratch") + "_rank_0_is_done";
  if (is_rank(0)) {
    for (int64_t step = 1; step <= 1000; ++step) paceline::report({{"step", step}});
    std::ofstream(marker) << "done";
    return;
  }
  for (int i = 0; !std::filesystem::exists(marker); ++i) {
    if (i == 30'000) throw std::runtime_error("rank 0 was held up");
    ::usleep(1000);
  }
  paceline::report({{"step", 1}});
}
void one_report() {
  paceline::report({{"step", 1}});
}
void world_size() {
  std::printf("world size %ld\n", static_cast<long>(paceline::get_context().get_world_size()));
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
PACELINE_TRAIN_LOOP(waits_in_barrier);
PACELINE_TRAIN_LOOP(reports_twice);
PACELINE_TRAIN_LOOP(saves_in_vain);
PACELINE_TRAIN_LOOP(torn_sample);
PACELINE_TRAIN_LOOP(session_functions);
PACELINE_TRAIN_LOOP(meets);
PACELINE_TRAIN_LOOP(slow_peer);
PACELINE_TRAIN_LOOP(one_report);
PACELINE_TRAIN_LOOP(world_size);

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

}  // namespace

int main(int argc, char** argv) {
  die_once_in_start_up(::getenv("DIE_ONCE"));
  paceline::init(argc, argv);
  const std::string name = argv[1];
  const std::string storage = argv[2];
  const auto number = [](const char* variable, double otherwise) {
    const char* text = ::getenv(variable);
    return text == nullptr ? otherwise : std::stod(text);
  };
  try {
    paceline::TorchTrainerOptions options;
    options.train_loop_config = {{"rate", "fast"}, {"scratch", storage + "/scratch"}};
    options.scaling_config.num_workers = static_cast<int>(number("WORKERS", 2));
    if (const char* least = ::getenv("LEAST_WORKERS")) {
      options.scaling_config.num_workers = {std::stoi(least), options.scaling_config.num_workers.max};
    }
    if (const char* path = ::getenv("RESUME_FROM")) options.resume_from_checkpoint = Checkpoint::from_directory(path);
    options.run_config.name = argc > 3 ? std::optional<std::string>(argv[3]) : std::nullopt;
    options.run_config.storage_path = storage;
    options.run_config.failure_config.max_failures = static_cast<int64_t>(number("MAX_FAILURES", 0));
    options.run_config.failure_config.heartbeat_timeout_s = number("HEARTBEAT_TIMEOUT", 30);
    options.run_config.failure_config.stop_grace_s = number("STOP_GRACE", 5);
    if (::getenv("BROKEN_CALLBACK") != nullptr) {
      options.run_config.callbacks = {std::make_shared<ThrowingCallback>()};
    }
    if (::getenv("HANGING_CALLBACK") != nullptr) {
      options.run_config.callbacks = {std::make_shared<HangingCallback>()};
    }
    const paceline::Result result = paceline::TorchTrainer(loop_named(name), options).fit();
    std::printf("state %s\n", result.state.c_str());
    std::printf("folder %s\n", result.path.c_str());
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
