// A run of one node whose ranks are simulated, so that only its controller is real: they report once a second.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "benchmarks/simulated_agent.h"
#include "paceline/controller/controller.h"
#include "paceline/controller/launcher/launcher.h"
#include "paceline/rpc/memory_channel.h"

namespace paceline::benchmarks {

inline controller::RunRequest simulated_request(const std::string& run_folder, const std::string& run_store,
                                                int64_t ranks) {
  controller::RunRequest request{.run_folder = run_folder,
                                 .location = run_folder,
                                 .run_store = run_store,
                                 .directory = run_folder,
                                 .train_loop = "simulated",
                                 .start = {.program = {"/bin/true"}}};
  request.run_config.name = "simulated";
  request.run_config.quiet = true;
  request.run_config.log_level = "ERROR";
  request.scaling_config.num_workers = ranks;
  return request;
}

/// One agent with all ranks, in this process.
class SimulatedRanks final : public controller::Launcher {
 public:
  /// `report` is called in a thread of its own, once all `count` ranks have their places.
  SimulatedRanks(int64_t count, std::function<void(SimulatedRanks&)> report)
      : count_(count), report_(std::move(report)) {}
  ~SimulatedRanks() override {
    if (reporting_.joinable()) reporting_.join();
  }

  arrow::Result<controller::Launch> launch(controller::LaunchEvents events) override {
    auto [controller_end, agent_end] = rpc::make_memory_channels();
    agent_ = std::make_unique<SimulatedAgent>(std::move(agent_end), "simulated", count_, [this] {
      if (++placed_ == count_) reporting_ = std::thread([this] { report_(*this); });
    });
    events.on_agent(std::move(controller_end));
    return controller::Launch{};
  }
  void close() override {}

  SimulatedAgent& agent() { return *agent_; }
  /// All ranks' reports of one second, spread over it as those of real ranks are. `next`: where the last one ended.
  void report_for_a_second(int64_t second, std::chrono::steady_clock::time_point& next) {
    constexpr int64_t kTicks = 100;
    for (int64_t tick = 0; tick < kTicks; ++tick) {
      for (int64_t rank = tick; rank < count_; rank += kTicks) agent_->report(rank, second);
      std::this_thread::sleep_until(next += std::chrono::milliseconds(1000) / kTicks);
    }
  }

 private:
  const int64_t count_;
  const std::function<void(SimulatedRanks&)> report_;
  int64_t placed_ = 0;
  std::thread reporting_;
  std::unique_ptr<SimulatedAgent> agent_;
};

}  // namespace paceline::benchmarks
