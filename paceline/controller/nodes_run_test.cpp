// Whole runs on several nodes: agents of this process that the controller takes for agents of other machines.

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "paceline/controller/run_fixture.h"
#include "paceline/core/run_layout.h"
#include "paceline/run/control_client.h"
#include "paceline/testing/elsewhere_channel.h"
#include "paceline/track/sample_files.h"

namespace paceline::controller {

using namespace policy;

namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// The controller's end; from some moment on nothing comes over it but its end.
class CutChannel final : public rpc::Channel {
 public:
  CutChannel(std::unique_ptr<rpc::Channel> channel, std::shared_ptr<const std::atomic<bool>> is_cut)
      : channel_(std::move(channel)), is_cut_(std::move(is_cut)) {}

  void start(Handlers handlers) override {
    channel_->start({.on_message =
                         [is_cut = is_cut_, on_message = std::move(handlers.on_message)](rpc::Envelope message) {
                           if (!*is_cut) on_message(std::move(message));
                         },
                     .on_close = std::move(handlers.on_close)});
  }
  arrow::Status send(rpc::Envelope envelope) override { return channel_->send(std::move(envelope)); }
  void close() override { channel_->close(); }
  bool carries_descriptors() const override { return channel_->carries_descriptors(); }

 private:
  const std::unique_ptr<rpc::Channel> channel_;
  const std::shared_ptr<const std::atomic<bool>> is_cut_;
};

// Agents come and go as the test says.
class NodesLauncher final : public Launcher {
 public:
  explicit NodesLauncher(std::vector<std::string> names) : first_(std::move(names)) {}

  arrow::Result<Launch> launch(LaunchEvents events) override {
    events_ = std::move(events);
    for (const std::string& name : first_) add(name);
    if (when_launched_) when_launched_();
    return Launch{.agents = wanted_ > 0 ? wanted_ : std::ssize(first_),
                  .others_may_come = true,
                  .one_agent_each = one_agent_each_};
  }
  void close() override { closed_ = true; }

  void add(const std::string& name) {
    ASSERT_FALSE(closed_);
    auto [controller_end, agent_end] = paceline::testing::ElsewhereChannel::make_pair();
    agent::AgentOptions options;
    options.node = {.name = name, .address = "192.0.2." + std::to_string(++count_), .labels = {{"zone", "a"}}};
    options.node.rank = rank_of_.contains(name) ? rank_of_.at(name) : -1;
    options.node.workers = 1;
    options.sample_interval_ms = sample_interval_ms_;
    agents_.emplace(name, agent::start_agent(std::move(agent_end), guardian(), options).ValueOrDie());
    const auto& is_cut = is_cut_.emplace(name, std::make_shared<std::atomic<bool>>(false))->second;
    events_.on_agent(std::make_unique<CutChannel>(std::move(controller_end), is_cut));
  }
  void take_one_agent_each() { one_agent_each_ = true; }
  void take_samples_each_ms() { sample_interval_ms_ = 1; }
  // Why agents of that name were sent away.
  std::string reasons(const std::string& name) {
    std::string reasons;
    for (auto [agent, end] = agents_.equal_range(name); agent != end; ++agent) {
      EXPECT_TRUE(agent->second->wait().ok());
      if (const auto dismissal = agent->second->dismissal()) reasons += dismissal->reason;
    }
    return reasons;
  }
  // With all its processes.
  void lose(const std::string& name) { agents_.erase(name); }
  // As a machine that has lost its power: what its processes do then is not told.
  void lose_without_a_word(const std::string& name) {
    *is_cut_.find(name)->second = true;
    lose(name);
  }
  // In the place of what the constructor was told; 0: all are waited for.
  void begin_with(std::vector<std::string> names, int64_t wanted = 0) {
    first_ = std::move(names);
    wanted_ = wanted;
  }
  // Calls it when the first agents are there.
  void when_launched(std::function<void()> call) { when_launched_ = std::move(call); }
  // For nodes that are added later.
  void set_rank(const std::string& name, int64_t rank) { rank_of_[name] = rank; }
  agent::Agent& agent(const std::string& name) { return *agents_.find(name)->second; }
  // Once the controller has closed its channel.
  std::optional<rpc::Dismissed> dismissal_of(const std::string& name) {
    EXPECT_TRUE(agent(name).wait().ok());
    return agent(name).dismissal();
  }

 private:
  std::vector<std::string> first_;
  int64_t wanted_ = 0;
  bool one_agent_each_ = false;
  int64_t sample_interval_ms_ = 0;
  std::function<void()> when_launched_;
  LaunchEvents events_;
  std::multimap<std::string, std::unique_ptr<agent::Agent>> agents_;
  std::multimap<std::string, std::shared_ptr<std::atomic<bool>>> is_cut_;
  std::map<std::string, int64_t> rank_of_;
  int64_t count_ = 0;
  bool closed_ = false;
};

class NodesRunTest : public RunTest {
 protected:
  NodesRunTest() {
    request_.scaling_config.placement_strategy = "SPREAD";
    request_.run_config.failure_config.max_failures = 3;
  }
  std::vector<std::string> nodes_of_workers() const {
    const RunState state = run::replay(folder_.path()).ValueOrDie().value();
    std::vector<std::string> names;
    for (const auto& [id, worker] : state.workers) names.push_back(state.nodes[static_cast<size_t>(worker.node)].name);
    return names;
  }
  std::string log_of(int64_t worker) const {
    std::ifstream file(folder_ / run_layout::worker_log(WorkerId{worker}));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Logs of workers that this process has open.
  int64_t open_logs() const {
    return std::ranges::count_if(std::filesystem::directory_iterator("/proc/self/fd"), [](const auto& entry) {
      std::error_code is_closed;
      return run_layout::worker_of_log(std::filesystem::read_symlink(entry, is_closed).filename().string()) > 0;
    });
  }
  // Calls `act` with the launcher once the first attempt has made its second report.
  void at_second_report(const std::function<void()>& act) {
    callback_ = std::make_shared<TestCallback>();
    callback_->report = [act, done = false](const RunContext& run, const std::vector<Metrics>& metrics,
                                            const Checkpoint*) mutable {
      if (run.attempt == 1 && metrics[0].get<int64_t>("step") == 2 && !std::exchange(done, true)) act();
    };
  }
};

TEST_F(NodesRunTest, WorkersOfAllNodesTrainAndTheirLogsAreHere) {
  NodesLauncher launcher({"one", "two"});
  const RunOutcome outcome = run({{"reports", 3}, {"checkpoint_every", 3}, {"value", 42}}, launcher);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.return_value, 42);
  EXPECT_THAT(nodes_of_workers(), UnorderedElementsAre("one", "two"));
  EXPECT_THAT(checkpoints(), ElementsAre(3));
  EXPECT_EQ(log_of(1), "step 1\nstep 2\nstep 3\n");
  EXPECT_EQ(log_of(2), "step 1\nstep 2\nstep 3\n");
}

TEST_F(NodesRunTest, WhatNodesDoIsInTheRunFolder) {
  NodesLauncher launcher({"one", "two"});
  launcher.take_samples_each_ms();
  EXPECT_EQ(run({{"reports", 3}}, launcher).error, "");
  for (const char* node : {"one", "two"}) {
    std::ifstream file(track::samples_path(folder_ / run_layout::node_samples(node), track::kSampleTiers.front()));
    std::string header, row;
    std::getline(file, header);
    std::getline(file, row);
    ASSERT_TRUE(track::decode_samples_header(header)) << header;
    EXPECT_EQ(track::decode_samples_header(header)->name, node);
    EXPECT_EQ(row.front(), '[');
  }
}

TEST_F(NodesRunTest, AnAttachmentLargerThanAPartReachesEveryNode) {
  NodesLauncher launcher({"one", "two"});
  const RunOutcome outcome =
      run({{"reports", 1}, {"value", 42}, {"ballast", std::string(size_t{40} << 20, 'x')}}, launcher);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.return_value, 42);
}

TEST_F(NodesRunTest, TheLossOfANodeCostsAnAttemptAndASpareOneTakesItsPlace) {
  // A node has room for one.
  request_.scaling_config.resources_per_worker = {{"CPU", static_cast<double>(agent::describe_node({}).cores)}};
  NodesLauncher launcher({"one", "two"});
  at_second_report([&] {
    launcher.add("spare");
    launcher.lose("two");
  });
  const RunOutcome outcome = run({{"reports", 16}, {"checkpoint_every", 2}, {"step_ms", 50}}, launcher);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.state, FinalState::finished);
  EXPECT_EQ(run::replay(folder_.path())->value().attempt.value, 2);
  EXPECT_THAT(nodes_of_workers(), UnorderedElementsAre("one", "spare"));
}

TEST_F(NodesRunTest, WithoutASpareOneTheNextAttemptUsesWhatIsLeft) {
  NodesLauncher launcher({"one", "two"});
  at_second_report([&] { launcher.lose("one"); });
  request_.scaling_config.resources_per_worker = {{"CPU", 0}};
  const RunOutcome outcome = run({{"reports", 4}, {"step_ms", 50}}, launcher);
  EXPECT_EQ(outcome.error, "");
  EXPECT_THAT(nodes_of_workers(), ElementsAre("two", "two"));
}

TEST_F(NodesRunTest, LogsOfLostNodesAreClosed) {
  constexpr int64_t kAttempts = 4;
  request_.scaling_config.resources_per_worker = {{"CPU", static_cast<double>(agent::describe_node({}).cores)}};
  NodesLauncher launcher({"one", "node 0"});
  std::vector<int64_t> logs, all;  // open in each attempt
  callback_ = std::make_shared<TestCallback>();
  callback_->report = [&](const RunContext& run, const std::vector<Metrics>& metrics, const Checkpoint*) {
    if (metrics[0].get<int64_t>("step") != 2) return;
    logs.push_back(open_logs());
    all.push_back(std::ranges::distance(std::filesystem::directory_iterator("/proc/self/fd")));
    if (run.attempt == kAttempts) return;
    launcher.add("node " + std::to_string(run.attempt));
    launcher.lose_without_a_word("node " + std::to_string(run.attempt - 1));
  };
  const RunOutcome outcome = run({{"reports", 4}, {"step_ms", 50}}, launcher);
  EXPECT_EQ(outcome.error, "");
  ASSERT_THAT(logs, ElementsAre(2, 2, 2, 2)) << "one of each worker that there is";
  EXPECT_EQ(open_logs(), 0);
  EXPECT_LT(all.back() - all.front(), kAttempts - 1) << "nothing else is left of each node either";
}

TEST_F(NodesRunTest, ALostNodeIsNamedWhereTheRunEndsWithIt) {
  request_.run_config.failure_config.max_failures = 0;
  NodesLauncher launcher({"one", "two"});
  at_second_report([&] { launcher.lose("two"); });
  const RunOutcome outcome = run({{"reports", 100}, {"step_ms", 50}}, launcher);
  EXPECT_EQ(outcome.state, FinalState::errored);
  // Its worker's end may be told first: this agent leaves in order.
  EXPECT_THAT(outcome.error,
              AnyOf(HasSubstr("Node two is lost: its agent has ended"), HasSubstr("on node two was killed")));
}

TEST_F(NodesRunTest, AQuestionIsAnsweredAlthoughANodeIsLost) {
  NodesLauncher launcher({"one", "two"});
  Json status;
  std::thread asking;
  at_second_report([&] {
    launcher.add("spare");
    launcher.lose("two");
    asking = std::thread([&] { status = run::request_status(folder_.path()).ValueOr(Json()); });
  });
  run({{"reports", 10}, {"step_ms", 50}}, launcher);
  ASSERT_TRUE(asking.joinable());
  asking.join();
  EXPECT_TRUE(status.is_object());
}

TEST_F(NodesRunTest, TwoAgentsOfOneNameAreTwoNodes) {
  NodesLauncher launcher({"same", "same"});
  EXPECT_EQ(run({{"reports", 1}}, launcher).error, "");
  EXPECT_THAT(nodes_of_workers(), ElementsAre("same", "same_2"));
}

TEST_F(NodesRunTest, AgentsHearHowTheRunHasEnded) {
  NodesLauncher good({"one", "two"});
  run({{"reports", 1}}, good);
  EXPECT_EQ(good.dismissal_of("two"), rpc::Dismissed{});
}

TEST_F(NodesRunTest, AgentsHearTheExitCodeOfWhatHasFailed) {
  request_.run_config.failure_config.max_failures = 0;
  NodesLauncher launcher({"one", "two"});
  const RunOutcome outcome =
      run({{"reports", 100}, {"step_ms", 20}, {"faults", {{{"rank", 1}, {"at", 2}, {"do", "exit"}, {"code", 7}}}}},
          launcher);
  EXPECT_EQ(outcome.state, FinalState::errored);
  for (const char* name : {"one", "two"}) {
    const auto dismissal = launcher.dismissal_of(name);
    ASSERT_TRUE(dismissal) << name;
    EXPECT_EQ(dismissal->exit_code, 7) << name;
    EXPECT_TRUE(outcome.error.starts_with(dismissal->reason)) << dismissal->reason;
  }
}

TEST_F(NodesRunTest, AnAgentMayAskForTheStopOfTheRun) {
  NodesLauncher launcher({"one", "two"});
  at_second_report([&] { launcher.agent("two").ask_for_stop("SIGINT"); });
  const RunOutcome outcome = run({{"reports", 1000}, {"step_ms", 50}}, launcher);
  EXPECT_EQ(outcome.state, FinalState::aborted);
  EXPECT_THAT(outcome.error, HasSubstr("The run was stopped: SIGINT on node two"));
  EXPECT_EQ(launcher.dismissal_of("two")->exit_code, 128 + SIGINT);
}

TEST_F(NodesRunTest, EachNodeHasTheWorkersThatItSaysAndItsRank) {
  request_.most_nodes = 2;
  request_.scaling_config.nodes = 2;
  NodesLauncher launcher({});
  launcher.set_rank("last", 1);
  launcher.set_rank("first", 0);
  launcher.begin_with({"last", "first"});
  EXPECT_EQ(run({{"reports", 1}}, launcher).error, "");
  EXPECT_THAT(nodes_of_workers(), ElementsAre("first", "last"));
}

// Which is the second is not known: agents announce themselves in any order.
TEST_F(NodesRunTest, TheSecondNodeOfARankIsSentAway) {
  request_.most_nodes = 2;
  NodesLauncher launcher({});
  const std::vector<std::string> twins = {"one", "other"};
  for (const std::string& name : twins) launcher.set_rank(name, 0);
  launcher.set_rank("two", 1);
  launcher.begin_with(twins, 2);
  std::atomic<bool> is_sent_away = false;
  std::vector<std::thread> waiting;
  launcher.when_launched([&] {
    for (const std::string& name : twins) {
      waiting.emplace_back([&, twin = &launcher.agent(name)] {
        EXPECT_TRUE(twin->wait().ok());
        if (!is_sent_away.exchange(true)) launcher.add("two");
      });
    }
  });
  EXPECT_EQ(run({{"reports", 1}}, launcher).error, "");
  for (std::thread& thread : waiting) thread.join();
  const auto first = launcher.agent("one").dismissal();
  const auto second = launcher.agent("other").dismissal();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->exit_code + second->exit_code, 1);
  EXPECT_THAT(first->reason + second->reason,
              AllOf(HasSubstr("the node rank 0 is that of node o"), HasSubstr("needs its own --node-rank")));
}

// As ssh, whose connection has broken while the agent that it had started lives on.
TEST_F(NodesRunTest, ACommandThatIsStartedAgainBringsNoSecondNode) {
  request_.scaling_config.num_workers = 1;
  NodesLauncher launcher({});
  launcher.begin_with({"one", "one"}, 1);
  launcher.take_one_agent_each();
  EXPECT_EQ(run({{"reports", 1}}, launcher).error, "");
  EXPECT_EQ(launcher.reasons("one"), "node one has an agent already, whose command has ended before it");
}

}  // namespace
}  // namespace paceline::controller
