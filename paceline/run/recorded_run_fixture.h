// RecordedRun: a run folder as a controller leaves it, written without running anything.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "paceline/core/clock.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/policy/decide.h"
#include "paceline/run/journal.h"
#include "paceline/track/metrics_history.h"

namespace paceline::run {

class RecordedRun {
 public:
  explicit RecordedRun(const std::string& folder, std::string name = "mnist")
      : folder_(made(folder)), name_(std::move(name)), journal_(Journal::open(folder_).ValueOrDie()) {}

  /// Writes the event ten seconds after the one before, and decides.
  void add(const policy::Event& event) {
    clock_.advance(std::chrono::seconds(10));
    const Time now = policy::journal_time(clock_.now());
    const policy::Actions actions = policy::decide(state_, event, now);
    EXPECT_TRUE(journal_.append(event, state_, actions, now).ok());
  }
  void open(const std::string& host = host_name(), int64_t pid = 0) {
    add(policy::RunOpened{.epoch = {1},
                          .name = name_,
                          .host = host,
                          .pid = pid,
                          .options = {.num_workers = 1, .max_failures = 1, .max_validations = 1},
                          .train_loop_config = {{"learning_rate", 0.125}}});
  }
  /// One worker; its first attempt throws, the second publishes a checkpoint and goes on.
  void train() {
    if (state_.epoch.value == 0) open();
    add(policy::NodeJoined{.node = {.name = "local", .cores = 2}});
    start_worker();
    add(policy::WorkerFailed{.worker = worker(), .exception = "std::runtime_error", .text = "no such digit"});
    add(policy::WorkerExited{.worker = worker(), .end = {.status = {.exit_code = 1}}});
    if (state_.workers.empty() || state_.backing_off) add(policy::TimerDue{.turn = state_.turn});
    start_worker();
    add(policy::CheckpointReady{.report = 1});
    add(policy::CheckpointPublished{.checkpoint = {.report = 1, .metrics = {{"loss", 0.25}}, .time = 1.0}});
  }
  void finish() {
    add(policy::WorkerFinished{.worker = worker(), .reports = 1});
    add(policy::WorkerExited{.worker = worker(), .last_report = 1});
  }
  void report(int64_t number, const Json& metrics) {
    auto history = track::HistoryWriter::open(folder_).ValueOrDie();
    EXPECT_TRUE(history.append({.report = number, .metrics = metrics}).ok());
    EXPECT_TRUE(history.flush().ok());
  }

  const policy::RunState& state() const { return state_; }
  /// The only worker of the group there is now.
  WorkerId worker() const { return state_.workers.empty() ? WorkerId{} : state_.workers.rbegin()->first; }

 private:
  static std::string made(const std::string& folder) {
    std::filesystem::create_directories(folder);
    return folder;
  }
  void start_worker() {
    const int64_t attempt = state_.attempt.value;
    const WorkerId id = worker();
    add(policy::WorkerStarted{.worker = id, .pid = 100 + attempt});
    add(policy::WorkerJoined{.worker = id, .pid = 100 + attempt});
  }

  std::string folder_;
  std::string name_;
  ManualClock clock_{from_seconds(1'800'000'000)};
  Journal journal_;
  policy::RunState state_;
};

}  // namespace paceline::run
