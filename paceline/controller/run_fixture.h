// Base of tests that run whole runs with real processes, which execute test_worker.cpp.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/checkpoint/store.h"
#include "paceline/controller/controller.h"
#include "paceline/controller/launcher/local.h"
#include "paceline/core/posix/pidfd.h"
#include "paceline/run/journal.h"
#include "paceline/storage/local/run_lock.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/track/metrics_history.h"

namespace paceline::controller {

/// Forked by main(), before threads exist.
agent::Guardian& guardian();

inline std::string program_beside_test(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

/// Calls functions of the test.
class TestCallback : public UserCallback {
 public:
  std::function<void(const RunContext&, const std::vector<Metrics>&, const Checkpoint*)> report;
  std::function<void(const RunContext&, const std::map<int64_t, std::string>&)> exception;
  std::function<void(const RunContext&)> start;
  std::function<void(const RunContext&, const RunEnding&)> finish;

  void after_report(const RunContext& run, const std::vector<Metrics>& metrics, const Checkpoint* checkpoint) override {
    if (report) report(run, metrics, checkpoint);
  }
  void after_exception(const RunContext& run, const std::map<int64_t, std::string>& errors) override {
    if (exception) exception(run, errors);
  }
  void after_start(const RunContext& run) override {
    if (start) start(run);
  }
  void after_finish(const RunContext& run, const RunEnding& ending) override {
    if (finish) finish(run, ending);
  }
};

inline RunRequest test_request(const std::string& run_folder, const Json& config) {
  RunRequest request{.run_folder = run_folder,
                     .location = run_folder,
                     .directory = run_folder,
                     .train_loop = "test",
                     .train_loop_config = config,
                     .start = {.program = {program_beside_test("controller_test_worker")}}};
  request.run_config.name = "test";
  request.run_config.log_level = "ERROR";
  request.scaling_config.num_workers = 2;
  return request;
}

class RunTest : public ::testing::Test {
 protected:
  RunTest() : request_(test_request(folder_.path(), Json::object())) {}

  /// Runs with `config` for the train loop, and checks what holds after every run.
  RunOutcome run(const Json& config) { return run(config, guardian()); }
  RunOutcome run(const Json& config, const agent::Guardian& with) {
    LocalLauncher launcher(with);
    return run(config, launcher);
  }
  RunOutcome run(const Json& config, Launcher& launcher) {
    const auto lock = storage::RunLock::acquire(folder_.path()).ValueOrDie();
    request_.train_loop_config = config;
    if (callback_) request_.run_config.callbacks = {callback_};
    const RunOutcome outcome = run_to_end(request_, launcher, clock_, stop_).ValueOrDie();
    expect_no_process();
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(folder_ / "control.sock")));
    EXPECT_FALSE(std::filesystem::exists(folder_ / ".staging"));
    const policy::RunState state = run::replay(folder_.path()).ValueOrDie().value();
    EXPECT_EQ(state.error, outcome.error);
    EXPECT_TRUE(policy::is_terminal(state.state));
    return outcome;
  }

  /// Whatever was started in the last epoch has ended (or does so within the test's patience).
  void expect_no_process() {
    EXPECT_TRUE(run::read_journal(folder_.path(), [](const policy::Event& event, Time) {
                  const auto* started = std::get_if<policy::WorkerStarted>(&event);
                  if (started == nullptr) return;
                  const auto process = open_pidfd(static_cast<pid_t>(started->pid));
                  if (!process.ok()) return;
                  pollfd end{process->get(), POLLIN, 0};
                  EXPECT_EQ(::poll(&end, 1, 60'000), 1) << "process " << started->pid << " is left";
                }).ok());
  }

  /// The guardian of a driver that has written its id into the run folder has ended.
  void expect_no_guardian() {
    std::ifstream file(folder_ / "guardian");
    pid_t pid = 0;
    ASSERT_TRUE(file >> pid);
    const auto process = open_pidfd(pid);
    if (!process.ok()) return;
    pollfd end{process->get(), POLLIN, 0};
    EXPECT_EQ(::poll(&end, 1, 60'000), 1);
  }

  std::vector<track::HistoryRow> history() const { return track::read_history(folder_.path()).ValueOrDie(); }
  std::vector<int64_t> checkpoints() const {
    std::vector<int64_t> reports;
    for (const auto& one : checkpoint::Store(folder_.path()).list().ValueOrDie()) {
      EXPECT_TRUE(checkpoint::verify(one.path).ok()) << one.path;
      EXPECT_EQ(checkpoint::read_manifest(one.path).ValueOrDie().files.size(), 2u) << "one file of each rank";
      reports.push_back(one.report);
    }
    return reports;
  }

  paceline::testing::TemporaryFolder folder_;
  SystemClock clock_;
  StopSignal stop_;
  RunRequest request_;
  std::shared_ptr<TestCallback> callback_;
};

}  // namespace paceline::controller
