// A live run of many ranks that report once a second, of which only the controller is real: what the dashboard looks at
// in the row dashboard_live (web/tests/measure_live.mjs). It stands in the user's run store and goes on until SIGTERM.
#include <chrono>
#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <thread>

#include "benchmarks/simulated_agent.h"
#include "paceline/controller/controller.h"
#include "paceline/controller/launcher/launcher.h"
#include "paceline/rpc/memory_channel.h"
#include "paceline/storage/local/run_lock.h"
#include "paceline/track/run_store.h"

using namespace paceline;

namespace {

constexpr int64_t kTicks = 100;  // of a second, over which the ranks' reports are spread

// One agent with all ranks, in this process, which ends with the run.
class SimulatedRanks final : public controller::Launcher {
 public:
  explicit SimulatedRanks(int64_t count) : count_(count) {}

  arrow::Result<controller::Launch> launch(controller::LaunchEvents events) override {
    auto [controller_end, agent_end] = rpc::make_memory_channels();
    agent_ = std::make_unique<benchmarks::SimulatedAgent>(std::move(agent_end), "simulated", count_, [this] {
      if (++placed_ == count_) std::thread([this] { report(); }).detach();
    });
    events.on_agent(std::move(controller_end));
    return controller::Launch{};
  }
  void close() override {}

 private:
  [[noreturn]] void report() {
    auto next = std::chrono::steady_clock::now();
    for (int64_t second = 1;; ++second) {
      for (int64_t tick = 0; tick < kTicks; ++tick) {
        for (int64_t rank = tick; rank < count_; rank += kTicks) agent_->report(rank, second);
        std::this_thread::sleep_until(next += std::chrono::milliseconds(1000) / kTicks);
      }
    }
  }

  const int64_t count_;
  int64_t placed_ = 0;
  std::unique_ptr<benchmarks::SimulatedAgent> agent_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string folder;
  int64_t count = 1024;
  CLI::App app("A live run of simulated ranks that report once a second");
  app.add_option("folder", folder, "The run's")->required();
  app.add_option("--ranks", count);
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGTERM, [](int) { std::_Exit(0); });
  std::filesystem::create_directories(folder);
  const auto lock = storage::RunLock::acquire(folder).ValueOrDie();
  controller::RunRequest request{.run_folder = folder,
                                 .location = folder,
                                 .run_store = track::user_run_store().ValueOrDie(),
                                 .directory = folder,
                                 .train_loop = "simulated",
                                 .start = {.program = {"/bin/true"}}};
  request.run_config.name = "simulated";
  request.run_config.quiet = true;
  request.run_config.log_level = "ERROR";
  request.scaling_config.num_workers = count;
  SystemClock clock;
  controller::StopSignal stop;
  SimulatedRanks ranks(count);
  return controller::run_to_end(request, ranks, clock, stop).ok() ? 0 : 1;
}
