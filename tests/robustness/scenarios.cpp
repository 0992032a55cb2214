// The driver program of the robustness tests: `scenarios NAME STORAGE [RUN]` runs one train loop, most of which
// misbehave.
#include <paceline/paceline.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
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

// "checkpoint_000002", wherever it is.
std::string name_of(const Checkpoint& checkpoint) {
  return std::filesystem::path(checkpoint.path().substr(0, checkpoint.path().find('?'))).filename();
}

// Five steps of a small model with a checkpoint each; `misbehave` runs in step 3, after two published checkpoints.
void train(const std::function<void()>& misbehave) {
  torch::manual_seed(0);
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  int64_t start = 1;
  if (auto checkpoint = paceline::get_checkpoint()) {
    checkpoint->load(model, optimizer);
    const std::string name = name_of(*checkpoint);
    start = std::stoll(name.substr(name.rfind('_') + 1)) % 5 + 1;
    std::printf("continue from %s\n", name.c_str());
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
// report() returns when the checkpoint is published, as it does where the run is in an object store.
void sees_its_checkpoints() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  for (int64_t step = 1; step <= 5; ++step) {
    paceline::report({{"step", step}}, Checkpoint::save(model));
    const auto seen = paceline::get_checkpoint();
    if (!seen || name_of(*seen) != "checkpoint_00000" + std::to_string(step)) {
      throw std::runtime_error("the checkpoint of step " + std::to_string(step) + " is not there yet");
    }
    seen->load(model);
  }
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
[[gnu::noipa]] void write_to_nowhere(volatile int* nowhere) {
  *nowhere = 1;
}
void crash() {
  train([] {
    if (is_rank(1)) write_to_nowhere(nullptr);
  });
}
// The others wait for its gradients meanwhile.
[[gnu::noinline]] void wait_for_a_lock_of_its_own() {
  while (true) ::pause();
}
void hang_in_user_code() {
  train([] {
    if (is_rank(1) && first_attempt()) wait_for_a_lock_of_its_own();
  });
}
void skip_a_collective() {
  train([] {
    if (is_rank(0)) paceline::all_reduce(torch::ones({2}));
    paceline::barrier();
  });
}
void limit_address_space(size_t further_bytes) {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + further_bytes;
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) throw std::runtime_error("the address space cannot be limited");
}
// Until the kernel or a limit ends it.
void use_all_memory() {
  train([] {
    if (!is_rank(1)) return;
    if (::getenv("LIMITED_ADDRESS_SPACE") != nullptr) limit_address_space(size_t{256} << 20);
    std::vector<std::string> memory;
    while (true) memory.emplace_back(size_t{16} << 20, 'x');
  });
}
void loses_its_numbers() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  for (int64_t step = 1; step <= 3; ++step) {
    const double factor = step == 2 && is_rank(1) ? std::numeric_limits<double>::quiet_NaN() : 1.0;
    (model->forward(torch::ones({8, 4})).sum() * factor).backward();
    paceline::report({{"step", step}});
  }
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
// Every way to hand over files, different on the ranks, and metrics between them.
void mixed_uploads(const Config& config) {
  using enum paceline::CheckpointUploadMode;
  auto model = paceline::prepare_model(torch::nn::Linear(64, 64));
  const std::string rank = std::to_string(paceline::get_context().get_world_rank());
  const auto folder = [&](const std::string& path) {
    std::filesystem::create_directories(path);
    std::ofstream(path + "/rank_" + rank + ".txt") << rank;
    return Checkpoint::from_directory(path);
  };
  int64_t folders = 0;  // an upload may be under way: each has a folder of its own
  const auto local = [&] { return config.get<std::string>("scratch") + "_" + rank + "_" + std::to_string(++folders); };
  const std::string storage = paceline::get_context().get_storage();
  for (int64_t round = 0; round < 3; ++round) {
    paceline::report({{"round", round}}, Checkpoint::async_save(model), {.checkpoint_upload_mode = async});
    paceline::report({{"round", round}});
    paceline::report({{"round", round}}, Checkpoint::save(model),
                     {.checkpoint_upload_mode = is_rank(0) ? sync : async});
    paceline::report({{"round", round}}, folder(local()), {.checkpoint_upload_mode = is_rank(0) ? async : sync});
    const std::string name = "mine_" + std::to_string(round);
    paceline::report({{"round", round}}, folder(is_rank(0) ? storage + "/" + name : local()),
                     {.checkpoint_upload_mode = is_rank(0) ? no_upload : async, .checkpoint_dir_name = name});
  }
  const auto all = paceline::get_all_reported_checkpoints();
  if (all.size() != 12) throw std::runtime_error("there are " + std::to_string(all.size()) + " checkpoints");
}
// Rank 0's upload fails while both ranks go on.
void failing_upload(const Config& config) {
  while (!is_rank(0)) paceline::barrier();
  const std::string local = config.get<std::string>("scratch") + "_local";
  std::filesystem::create_directories(local);
  paceline::report({{"step", 1}}, Checkpoint::from_directory(local),
                   {.checkpoint_upload_mode = paceline::CheckpointUploadMode::async,
                    .delete_local_checkpoint_after_upload = false,
                    .checkpoint_upload_fn = [](const Checkpoint&, const std::string&) -> Checkpoint {
                      throw std::runtime_error("quota exceeded");
                    }});
  for (;;) paceline::barrier();
}
// Reports whose checkpoints are validated: the third kills its process, the last takes too long.
paceline::Json validated() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  for (int64_t step = 1; step <= 4; ++step) {
    paceline::ValidationTaskConfig task{.config = {{"step", step}}};
    if (step == 4) task.timeout_s = 0.5;
    paceline::report({{"step", step}}, Checkpoint::save(model), {.validation = task});
  }
  paceline::Json said = paceline::Json::array();
  for (const auto& one : paceline::get_all_reported_checkpoints()) {
    said.push_back(
        {one.metrics.get<int64_t>("step"), one.metrics.get<double>("bias", 0), static_cast<int>(one.status)});
  }
  return said;
}
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
void one_report() {
  paceline::report({{"step", 1}});
}
void world_size() {
  std::printf("world size %ld\n", static_cast<long>(paceline::get_context().get_world_size()));
}
void unregistered() {}

PACELINE_TRAIN_LOOP(well);
PACELINE_TRAIN_LOOP(sees_its_checkpoints);
PACELINE_TRAIN_LOOP(exception);
PACELINE_TRAIN_LOOP(exception_everywhere);
PACELINE_TRAIN_LOOP(killed);
PACELINE_TRAIN_LOOP(crash);
PACELINE_TRAIN_LOOP(hang_in_user_code);
PACELINE_TRAIN_LOOP(skip_a_collective);
PACELINE_TRAIN_LOOP(use_all_memory);
PACELINE_TRAIN_LOOP(loses_its_numbers);
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
PACELINE_TRAIN_LOOP(mixed_uploads);
PACELINE_TRAIN_LOOP(failing_upload);
PACELINE_TRAIN_LOOP(validated);
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
    if (const char* path = ::getenv("RESUME_FROM")) options.resume_from_checkpoint = Checkpoint::from_directory(path);
    options.validation_config = paceline::ValidationConfig{.fn = look_at, .task_config = {.config = {{"bias", 2.5}}}};
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
    if (::getenv("BROKEN_CALLBACK") != nullptr) {
      options.run_config.callbacks = {std::make_shared<ThrowingCallback>()};
    }
    if (::getenv("HANGING_CALLBACK") != nullptr) {
      options.run_config.callbacks = {std::make_shared<HangingCallback>()};
    }
    print(paceline::TorchTrainer(loop_named(name), options).fit());
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
