// Every message says whose it is, and none is lost or doubled.
#include <gmock/gmock.h>

#include <csignal>
#include <mutex>
#include <set>

#include "paceline/controller/run_fixture.h"

namespace paceline::controller {
namespace {

class RecordingChannel final : public rpc::Channel {
 public:
  RecordingChannel(std::unique_ptr<rpc::Channel> channel, std::function<void(const rpc::Envelope&, bool sent)> record)
      : channel_(std::move(channel)), record_(std::move(record)) {}
  void start(Handlers handlers) override {
    channel_->start({.on_message =
                         [this, on_message = std::move(handlers.on_message)](rpc::Envelope envelope) {
                           record_(envelope, false);
                           on_message(std::move(envelope));
                         },
                     .on_close = std::move(handlers.on_close)});
  }
  arrow::Status send(rpc::Envelope envelope) override {
    record_(envelope, true);
    return channel_->send(std::move(envelope));
  }
  void close() override { channel_->close(); }

 private:
  std::unique_ptr<rpc::Channel> channel_;
  std::function<void(const rpc::Envelope&, bool sent)> record_;
};

class RecordingLauncher final : public Launcher {
 public:
  struct Recorded {
    std::string type;
    bool sent = false;
    int64_t sequence = 0;
    Identity identity;
  };
  arrow::Result<Launch> launch(LaunchEvents events) override {
    return local_.launch(
        {.on_agent =
             [this, on_agent = events.on_agent](std::unique_ptr<rpc::Channel> agent) {
               on_agent(std::make_unique<RecordingChannel>(std::move(agent), [this](const auto& envelope, bool sent) {
                 const std::lock_guard lock(mutex_);
                 recorded_.push_back({envelope.type, sent, envelope.sequence, envelope.identity});
               }));
             },
         .on_failure = {}});
  }
  void close() override {}
  const std::vector<Recorded>& recorded() const { return recorded_; }

 private:
  LocalLauncher local_{guardian()};
  std::mutex mutex_;
  std::vector<Recorded> recorded_;
};

TEST_F(RunTest, EveryMessageCarriesItsIdentity) {
  request_.run_config.failure_config.max_failures = 1;
  const Json dies = {{"rank", 1}, {"attempt", 1}, {"at", 2}, {"do", "signal"}, {"signal", SIGKILL}};
  request_.train_loop_config = {{"reports", 2}, {"checkpoint_every", 1}, {"wait_for_commit", true}, {"faults", {dies}}};
  RecordingLauncher launcher;
  EXPECT_EQ(run_to_end(request_, launcher, clock_, stop_).ValueOrDie().state, FinalState::finished);
  const std::set<std::string> of_the_node = {"node_ready", "leftovers",        "attachment",
                                             "dismissed",  "progress_request", "progress_reply"};
  std::set<std::string> types;
  int64_t received = 0;
  for (const auto& message : launcher.recorded()) {
    SCOPED_TRACE(message.type);
    types.insert(message.type);
    if (!message.sent) {
      EXPECT_EQ(message.sequence, ++received);
    }
    if (of_the_node.contains(message.type)) continue;
    EXPECT_EQ(message.identity.epoch.value, 1);
    EXPECT_GT(message.identity.worker.value, 0);
    // Workers 1 and 2 are the first attempt's.
    EXPECT_EQ(message.identity.attempt.value, message.identity.worker.value <= 2 ? 1 : 2);
  }
  for (const char* type : {"start_process", "process_started", "joined", "assign", "report", "checkpoint_committed",
                           "finished", "output", "end_process", "process_exited"}) {
    EXPECT_TRUE(types.contains(type)) << type;
  }
}

}  // namespace
}  // namespace paceline::controller
