// controller_scale: what 10,000 ranks that report once a second cost the driver, in cores: the processor time of the
// controller (its loop, inbox, history, indexer), of a whole run in one process, without what stands for agent and
// ranks.
//
// One sample a second; the ranks' reports are spread over it as those of real ranks are.
#include <chrono>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <thread>

#include "benchmarks/simulated_agent.h"
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

// One agent with all ranks, in this process.
class SimulatedRanks final : public controller::Launcher {
 public:
  explicit SimulatedRanks(int64_t seconds) : seconds_(seconds) {}
  ~SimulatedRanks() override {
    if (reporting_.joinable()) reporting_.join();
  }

  arrow::Result<controller::Launch> launch(controller::LaunchEvents events) override {
    auto [controller_end, agent_end] = rpc::make_memory_channels();
    agent_ = std::make_unique<benchmarks::SimulatedAgent>(std::move(agent_end), "simulated", kRanks, [this] {
      if (++ranks_ == kRanks) reporting_ = std::thread([this] { report(); });
    });
    events.on_agent(std::move(controller_end));
    return controller::Launch{};
  }
  void close() override {}

  const std::vector<double>& samples() const { return samples_; }
  /// The same of the simulation itself.
  const std::vector<double>& own_samples() const { return own_samples_; }

 private:
  void report() {
    auto next = Clock::now();
    for (int64_t second = 1; second <= kWarmUp + seconds_; ++second) {
      const double before = controller_seconds(), own_before = own_seconds();
      const auto begin = Clock::now();
      for (int64_t tick = 0; tick < kTicks; ++tick) {
        for (int64_t rank = tick; rank < kRanks; rank += kTicks) agent_->report(rank, second);
        std::this_thread::sleep_until(next += kTick);
      }
      const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
      if (second <= kWarmUp) continue;
      samples_.push_back((controller_seconds() - before) / passed);
      own_samples_.push_back((own_seconds() - own_before) / passed);
    }
    agent_->finish(kWarmUp + seconds_);
  }

  double own_seconds() const { return benchmarks::seconds_of(CLOCK_THREAD_CPUTIME_ID) + agent_->seconds(); }
  double controller_seconds() const { return benchmarks::seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own_seconds(); }

  const int64_t seconds_;
  int64_t ranks_ = 0;
  std::vector<double> samples_, own_samples_;
  std::thread reporting_;
  std::unique_ptr<benchmarks::SimulatedAgent> agent_;
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
