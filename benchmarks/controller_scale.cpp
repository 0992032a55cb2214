// controller_scale: what 10,000 ranks that report once a second cost the driver, in cores: the processor time of the
// controller (its loop, inbox, history, indexer), of a whole run in one process, without what stands for agent and
// ranks.
//
// One sample a second; the ranks' reports are spread over it as those of real ranks are.
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <CLI/CLI.hpp>
#include <condition_variable>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "paceline/controller/controller.h"
#include "paceline/controller/launcher/launcher.h"
#include "paceline/rpc/memory_channel.h"
#include "paceline/storage/local/run_lock.h"

using namespace paceline;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kRanks = 10'000;
constexpr int64_t kTicks = 100;  // of a second
constexpr auto kTick = std::chrono::milliseconds(1000) / kTicks;
constexpr int64_t kWarmUp = 2;  // seconds

double seconds_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

clockid_t clock_of_this_thread() {
  clockid_t clock{};
  ::pthread_getcpuclockid(::pthread_self(), &clock);
  return clock;
}

// An agent and the ranks of its node, as the controller hears of them.
class SimulatedRanks final : public controller::Launcher {
 public:
  explicit SimulatedRanks(int64_t seconds) : seconds_(seconds) {}
  ~SimulatedRanks() override {
    if (reporting_.joinable()) reporting_.join();
  }

  arrow::Result<controller::Launch> launch(OnAgent on_agent) override {
    std::unique_ptr<rpc::Channel> controller_end;
    std::tie(controller_end, channel_) = rpc::make_memory_channels();
    channel_->start({.on_message = [this](const rpc::Envelope& message) { receive(message); },
                     .on_close = [](const arrow::Status&) {}});
    send(rpc::NodeReady{.node = "simulated", .host = "simulated", .pid = ::getpid(), .cores = kRanks});
    on_agent(std::move(controller_end));
    return controller::Launch{};
  }
  void close() override {}

  const std::vector<double>& samples() const { return samples_; }
  /// The same of the simulation itself.
  const std::vector<double>& own_samples() const { return own_samples_; }

 private:
  template <class Message>
  void send(const Message& message, const Identity& identity = {}, int64_t reply_to = 0) {
    rpc::Envelope envelope = rpc::pack(message, identity);
    envelope.reply_to = reply_to;
    (void)channel_->send(std::move(envelope));  // fails when the run is over
  }

  void receive(const rpc::Envelope& message) {
    agent_clock_ = clock_of_this_thread();
    if (message.type == rpc::StartProcess::kType) {
      send(rpc::ProcessStarted{.pid = ::getpid()}, message.identity);
      send(rpc::Joined{.pid = ::getpid(), .host = "simulated"}, message.identity);
    } else if (message.type == rpc::Assign::kType) {
      ranks_.push_back(message.identity);
      if (std::ssize(ranks_) == kRanks) reporting_ = std::thread([this] { report(); });
    } else if (message.type == rpc::ProgressRequest::kType) {
      send(progress(), {}, message.request);
    } else if (message.type == rpc::EndProcess::kType) {
      send(rpc::ProcessExited{}, message.identity);
    }
  }

  rpc::ProgressReply progress() const {
    rpc::ProgressReply reply;
    for (const Identity& rank : ranks_) {
      reply.processes.push_back({.worker = rank.worker,
                                 .step = step_,
                                 .phase = Phase::training,
                                 .phase_s = 0.5,
                                 .marks = step_,
                                 .steps_timed = step_,
                                 .step_s = 1,
                                 .groups = {{.group = 1, .begun = step_, .done = step_, .collective = "all_reduce"}},
                                 .started = 1.8e9,
                                 .cpu_s = static_cast<double>(step_),
                                 .resident_bytes = int64_t{1} << 30});
    }
    return reply;
  }

  void report() {
    auto next = Clock::now();
    for (int64_t second = 1; second <= kWarmUp + seconds_; ++second) {
      const double before = controller_seconds(), own_before = own_seconds();
      const auto begin = Clock::now();
      for (int64_t tick = 0; tick < kTicks; ++tick) {
        for (int64_t rank = tick; rank < kRanks; rank += kTicks) {
          send(rpc::Report{.index = second,
                           .metrics = {{"loss", 1.0 / static_cast<double>(rank + second)},
                                       {"learning_rate", 0.001},
                                       {"step", second}}},
               ranks_[static_cast<size_t>(rank)]);
        }
        std::this_thread::sleep_until(next += kTick);
      }
      step_ = second;
      const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
      if (second <= kWarmUp) continue;
      samples_.push_back((controller_seconds() - before) / passed);
      own_samples_.push_back((own_seconds() - own_before) / passed);
    }
    for (const Identity& rank : ranks_) {
      send(rpc::Finished{.reports = kWarmUp + seconds_}, rank);
      send(rpc::ProcessExited{}, rank);
    }
  }

  double own_seconds() const { return seconds_of(CLOCK_THREAD_CPUTIME_ID) + seconds_of(agent_clock_); }
  double controller_seconds() const { return seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own_seconds(); }

  int64_t seconds_;
  std::unique_ptr<rpc::Channel> channel_;
  std::vector<Identity> ranks_;  // complete when the reports begin
  std::atomic<clockid_t> agent_clock_{};
  std::atomic<int64_t> step_ = 0;
  std::vector<double> samples_, own_samples_;
  std::thread reporting_;
};

controller::RunRequest request_in(const std::string& folder) {
  controller::RunRequest request{.run_folder = folder + "/run",
                                 .location = folder + "/run",
                                 .run_store = folder + "/runs.sqlite",
                                 .directory = folder,
                                 .train_loop = "simulated",
                                 .start = {.program = {"/bin/true"}}};
  request.run_config.name = "controller_scale";
  request.run_config.quiet = true;
  request.run_config.log_level = "ERROR";
  request.scaling_config.num_workers = kRanks;
  return request;
}

}  // namespace

int main(int argc, char** argv) {
  std::string scratch, data;
  int64_t iterations = 10, round = 0;
  CLI::App app("What 10,000 ranks that report once a second cost the driver, in cores");
  app.add_option("--scratch", scratch)->required();
  app.add_option("--iterations", iterations);
  app.add_option("--round", round);
  app.add_option("--data", data);
  CLI11_PARSE(app, argc, argv);
  const controller::RunRequest request = request_in(scratch);
  std::filesystem::create_directories(request.run_folder);
  const auto lock = storage::RunLock::acquire(request.run_folder).ValueOrDie();
  SystemClock clock;
  controller::StopSignal stop;
  SimulatedRanks ranks(iterations);
  const auto outcome = controller::run_to_end(request, ranks, clock, stop).ValueOrDie();
  if (outcome.state != FinalState::finished) throw std::runtime_error(outcome.error);
  std::cout << encode_json(
                   {{"samples", ranks.samples()}, {"peers", {{"simulated ranks and agent", ranks.own_samples()}}}})
            << std::endl;
}
