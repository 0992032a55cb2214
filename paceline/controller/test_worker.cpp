// A worker without LibTorch, for whole runs in tests: what it does is told by train_loop_config:
//   reports           how many reports it makes (3)
//   checkpoint_every  each n-th has files (0: none)
//   on_request        a report that falls on a wish for a checkpoint has files (false)
//   wait_for_commit   a report with files waits until its checkpoint is published (false)
//   step_ms           how long a step takes (0)
//   compute_ms        how much processor time a step uses (0)
//   collectives       whether each step is an all_reduce of 4 MiB (false)
//   value             what rank 0 returns
//   validate          the validation that each report with files asks for
//   ask               {"validated", "timeout_s"}: asks for all checkpoints after each report; the last answer is
//   returned faults            [{"rank", "attempt", "generation", "at", "do"}]: what goes wrong at the rank's report
//   `at`, counted
//                     from 1 in an attempt; 0 is before the train loop is entered. Left out is each.
//   data              asks the data process for a line before each report; rank 0 returns them
// A data process sends its id as a line to whoever connects, and ends as the run's "data_process" says: "exit" at once,
// or after each connection "once" while there is no file "served" yet.
// In a validation process validation_config tells it: "do": "exit", "throw" or "hang" ("unless" a file exists), or
// {"metrics"} which it gives, with the names of the checkpoint's files. What happens before the Welcome is told by
// PACELINE_TEST_BEFORE_JOIN: "exit" or "hang".
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "paceline/checkpoint/stage.h"
#include "paceline/core/clock.h"
#include "paceline/worker/connection.h"

namespace paceline::controller {
namespace {

void wait_for_ever() {
  while (true) ::pause();
}

// Of this thread's processor time; for profiles, which find it by its name.
[[gnu::noipa]] void compute_for(int64_t milliseconds) {
  const auto used = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
  };
  [[maybe_unused]] volatile int turns = 0;
  for (const int64_t end = used() + milliseconds; milliseconds > 0 && used() < end;) {
    for (int i = 0; i < 100'000; ++i) turns = i;
  }
}

class TestWorker {
 public:
  TestWorker(worker::Connection& connection, const Clock& clock)
      : connection_(connection), clock_(clock), config_(connection.welcome().train_loop_config) {
    connection_.on_stop([this](const rpc::Stop&) {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      changed_.notify_all();
    });
    connection_.on_checkpoint([this](const rpc::CheckpointCommitted& committed) {
      const std::lock_guard lock(mutex_);
      committed_ = committed.index;
      changed_.notify_all();
    });
  }

  ~TestWorker() {
    connection_.on_stop({});
    connection_.on_checkpoint({});
  }

  // One attempt; false when the process shall end with an error.
  bool train(const worker::Assignment& place) {
    place_ = place;
    rank_ = place.assign.rank.value;
    assigned_ = to_seconds(clock_.now());
    fail_at(0);
    connection_.progress().set_phase(Phase::training);
    const auto group = config_.value("collectives", false) ? connection_.progress().add_group() : nullptr;
    CollectiveHandle under_way;
    const auto reports = config_.value("reports", int64_t{3});
    for (int64_t made = 1; made <= reports; ++made) {
      std::printf("step %ld\n", made);
      std::fflush(stdout);
      connection_.progress().set_step(made);
      if (group) under_way = group->begin_collective({Collective::all_reduce, ElementType::float32, 4 << 20});
      if (!fail_at(made)) return false;
      if (returned_) break;
      if (stops_in(config_.value("step_ms", int64_t{0}))) return fail({.kind = "Stopped", .stopped = true});
      compute_for(config_.value("compute_ms", int64_t{0}));
      if (group) group->end_collective(under_way);
      if (config_.value("data", false)) read_data();
      report(made);
    }
    const Json value = answer_.is_null() ? config_.value("value", Json()) : answer_;
    connection_.send(rpc::pack(rpc::Finished{.reports = made_, .return_value = value}));
    return true;
  }

 private:
  bool stops_in(int64_t milliseconds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(milliseconds), [this] { return stopped_; });
  }

  void report(int64_t number) {
    const auto every = config_.value("checkpoint_every", int64_t{0});
    rpc::Report report{.index = place_.assign.first_report + made_};
    report.metrics = {{"step", number},
                      {"loss", 1.0 / static_cast<double>(number)},
                      {"from", place_.assign.checkpoint},
                      {"assigned", assigned_}};
    if (config_.contains("text_bytes"))
      report.metrics["text"] = std::string(config_.at("text_bytes").get<size_t>(), 'x');
    const bool is_wanted = config_.value("on_request", false) && connection_.checkpoint_requested();
    if (is_wanted || (every > 0 && number % every == 0)) {
      report.has_checkpoint = report.collective_save = true;
      report.staged = stage(report.index);
    }
    if (report.has_checkpoint && config_.contains("validate"))
      report.validation = config_.at("validate").get<ValidationTaskConfig>();
    ++made_;
    if (!connection_.has_room_for(report.index)) {
      connection_.progress().set_phase(Phase::report);
      if (!connection_.wait_for_room(report.index).ok()) return;
      connection_.progress().set_phase(Phase::training);
    }
    connection_.send(rpc::pack(report));
    if (config_.contains("ask")) ask(report.index);
    if (!report.has_checkpoint || !config_.value("wait_for_commit", false)) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || committed_ >= report.index; });
  }

  // From whichever process answers: one may die instead.
  void read_data() {
    char text[32] = {};
    while (!stops_in(0)) {
      const auto socket = connection_.connect_data();
      if (!socket.ok()) return;
      if (::read(socket->get(), text, sizeof text - 1) > 0) return answer_.push_back(std::string(text));
    }
  }

  void ask(int64_t report) {
    auto request = config_.at("ask").get<rpc::CheckpointsRequest>();
    request.report = report;
    const auto reply = connection_.call(rpc::pack(request), std::chrono::minutes(1));
    if (reply.ok()) answer_ = decode_json(reply->bytes).ValueOr(nullptr);
  }

  std::string stage(int64_t index) {
    const rpc::Welcome& welcome = connection_.welcome();
    auto stage =
        checkpoint::Stage::create(welcome.run_folder, place_.identity, index, welcome.storage_proof).ValueOrDie();
    const std::string folder = stage.folder() + "_made";
    ::mkdir(folder.c_str(), 0755);
    std::ofstream(folder + "/rank_" + std::to_string(rank_) + ".txt") << "report " << index << "\n";
    if (!stage.copy_folder(folder).ok()) std::abort();
    return stage.finish().ValueOrDie();
  }

  // False when the train loop has thrown.
  bool fail_at(int64_t step) {
    for (const Json& fault : config_.value("faults", Json::array())) {
      const auto attempt = fault.value("attempt", int64_t{0});
      const auto rank = fault.value("rank", int64_t{-1});
      if ((rank >= 0 && rank != rank_) || fault.value("at", int64_t{0}) != step) continue;
      if (attempt != 0 && attempt != place_.identity.attempt.value) continue;
      const auto generation = fault.value("generation", place_.identity.generation.value);
      if (generation != place_.identity.generation.value) continue;
      if (!inflict(fault)) return false;
    }
    return true;
  }

  bool inflict(const Json& fault) {
    const auto what = fault.at("do").get<std::string>();
    if (what == "exit") ::_exit(fault.value("code", 0));
    if (what == "signal") ::raise(fault.at("signal").get<int>());
    if (what == "throw") return fail({.kind = "std::runtime_error", .text = "simulated", .frames = {"loop (x.cpp:7)"}});
    if (what == "collateral") return fail({.kind = "CollectiveError", .text = "peer is gone", .collateral = true});
    if (what == "ignore_stop") wait_for_ever();
    if (what == "return") returned_ = true;
    if (what == "kill") ::kill(fault.at("pid").get<pid_t>(), SIGKILL), wait_for_ever();
    return true;
  }

  bool fail(const rpc::Failed& failed) {
    connection_.send(rpc::pack(failed));
    return false;
  }

  worker::Connection& connection_;
  const Clock& clock_;
  const Json config_;
  worker::Assignment place_;
  int64_t rank_ = 0;
  int64_t made_ = 0;
  Json answer_;
  double assigned_ = 0;
  bool returned_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  int64_t committed_ = 0;
};

int validate(worker::Connection& connection) {
  const auto& welcome = connection.welcome();
  const auto what = welcome.validation_config.value("do", std::string());
  if (what == "exit") return 3;
  const bool hangs = what == "hang" && !std::filesystem::exists(welcome.validation_config.value("unless", "none"));
  if (hangs) wait_for_ever();
  if (what == "throw") {
    connection.send(rpc::pack(rpc::Failed{.kind = "std::runtime_error", .text = "no data"}));
    return connection.flush().ok() ? 1 : 2;
  }
  Json metrics = welcome.validation_config.value("metrics", Json::object());
  for (const auto& file : std::filesystem::directory_iterator(welcome.checkpoint)) {
    metrics["files"].push_back(file.path().filename().string());
  }
  connection.send(rpc::pack(rpc::Validated{.metrics = metrics}));
  return connection.flush().ok() ? 0 : 2;
}

int serve_data(worker::Connection& connection) {
  const Json& config = connection.welcome().train_loop_config;
  if (config.value("data_process", std::string()) == "exit") return 3;
  connection.on_data_client([&](const Descriptor& rank) {
    const std::string text = std::to_string(::getpid());
    (void)!::write(rank.get(), text.data(), text.size());
    if (config.value("data_process", std::string()) != "once" || std::filesystem::exists("served")) return;
    std::ofstream("served") << text;
    ::raise(SIGKILL);
  });
  (void)connection.next_assignment();
  connection.on_data_client({});
  return 0;
}

int run() {
  const char* before_join = std::getenv("PACELINE_TEST_BEFORE_JOIN");
  if (before_join != nullptr && std::string(before_join) == "exit") return 3;
  if (before_join != nullptr && std::string(before_join) == "hang") wait_for_ever();
  const SystemClock clock;
  auto connection = worker::Connection::connect(clock).ValueOrDie();
  if (connection->welcome().role == rpc::kValidationRole.name) return validate(*connection);
  if (connection->welcome().role == rpc::kDataRole.name) return serve_data(*connection);
  while (true) {
    const auto place = connection->next_assignment();
    if (!place.ok() || !*place) return place.ok() ? 0 : 1;
    TestWorker worker(*connection, clock);
    const bool returned = worker.train(**place);
    if (!connection->flush().ok() || !returned) return 1;
  }
}

}  // namespace
}  // namespace paceline::controller

// A worker that is to die by a signal does so under sanitizers too: theirs would exit with a code. The names are
// theirs.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "handle_segv=0";
}
extern "C" const char* __tsan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "handle_segv=0";
}

int main() {
  return paceline::controller::run();
}
