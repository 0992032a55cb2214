#include "paceline/worker/connection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <future>

#include "paceline/rpc/report_bytes.h"
#include "paceline/testing/fake_agent.h"

namespace paceline::worker {
namespace {

using ::paceline::testing::FakeAgent;

class ConnectionTest : public ::testing::Test {
 protected:
  void connect() {
    connection_ =
        connect_over(agent_.worker_end(), clock_, {.on_lost_agent = [this] { lost_.set_value(); }}).ValueOrDie();
    joined_ = agent_.expect<rpc::Joined>();
  }

  SystemClock clock_;
  // Heartbeats come on demand of a test only.
  FakeAgent agent_{rpc::Welcome{.run_name = "test", .heartbeat_interval_s = 3600}};
  std::promise<void> lost_;
  std::pair<rpc::Joined, rpc::Envelope> joined_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(ConnectionTest, JoinsWithItsProgressWord) {
  connect();
  EXPECT_EQ(connection_->welcome().run_name, "test");
  EXPECT_EQ(joined_.first.pid, ::getpid());
  EXPECT_FALSE(joined_.first.host.empty());
  EXPECT_EQ(joined_.second.identity, agent_.identity());
  ASSERT_EQ(joined_.second.descriptors.size(), 1u);
  const auto reader = ProgressReader::open(std::move(joined_.second.descriptors[0])).ValueOrDie();
  connection_->progress().set_step(12);
  EXPECT_EQ(reader.read(SystemClock().monotonic()).step, 12);
}

TEST(Connection, HeartbeatsComeWhateverTheProgramDoes) {
  const SystemClock clock;
  FakeAgent agent(rpc::Welcome{.heartbeat_interval_s = 0.001});
  const auto connection = connect_over(agent.worker_end(), clock).ValueOrDie();
  agent.expect<rpc::Joined>();
  for (int i = 0; i < 3; ++i) agent.expect<rpc::Heartbeat>();
}

TEST_F(ConnectionTest, MessagesCarryTheIdentityOfTheCurrentAssignment) {
  connect();
  for (const int64_t generation : {0, 1}) {
    const Identity identity{.epoch = {1}, .attempt = {2}, .generation = {generation}, .worker = {7}};
    agent_.send(rpc::Assign{.rank = {generation}, .world_size = 3}, identity);
    const auto assignment = connection_->next_assignment().ValueOrDie();
    ASSERT_TRUE(assignment.has_value());
    EXPECT_EQ(assignment->assign.rank, Rank{generation});
    EXPECT_EQ(assignment->identity, identity);
    connection_->send(rpc::pack(rpc::Report{.index = 1}));
    EXPECT_EQ(agent_.expect<rpc::Report>().second.identity, identity);
  }
}

TEST_F(ConnectionTest, KeepsOrderAndFlushesBeforeDestruction) {
  connect();
  for (int64_t i = 1; i <= 100; ++i) connection_->send(rpc::pack(rpc::Report{.index = i}));
  ASSERT_TRUE(connection_->flush().ok());
  for (int64_t i = 1; i <= 100; ++i) EXPECT_EQ(agent_.expect<rpc::Report>().first.index, i);
  for (int64_t i = 1; i <= 100; ++i) connection_->send(rpc::pack(rpc::Report{.index = i}));
  connection_.reset();
  for (int64_t i = 1; i <= 100; ++i) EXPECT_EQ(agent_.expect<rpc::Report>().first.index, i);
  EXPECT_FALSE(agent_.socket().receive().ValueOrDie().has_value()) << "closed in order";
}

TEST_F(ConnectionTest, WhatMayLeaveLaterKeepsItsPlaceAndLeavesByItself) {
  connect();
  connection_->send(rpc::pack(rpc::Report{.index = 1}));
  ASSERT_TRUE(connection_->flush().ok());  // from here on what may leave later does
  for (int64_t i = 2; i <= 3; ++i) connection_->send_soon(rpc::pack(rpc::Report{.index = i}));
  connection_->send(rpc::pack(rpc::Report{.index = 4}));
  connection_->send_soon(rpc::pack(rpc::Report{.index = 5}));
  for (int64_t i = 1; i <= 5; ++i) EXPECT_EQ(agent_.expect<rpc::Report>().first.index, i);
}

TEST_F(ConnectionTest, SendNeverBlocksOnAnAgentThatDoesNotRead) {
  connect();
  for (int64_t i = 0; i < 20; ++i) {
    rpc::Envelope envelope = rpc::pack(rpc::Report{.index = i});
    envelope.bytes = std::string(1'000'000, 'x');
    connection_->send(std::move(envelope));
  }
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(agent_.expect<rpc::Report>().first.index, i);
}

// A controller that is held up holds up its workers; a Stop lets them go.
TEST_F(ConnectionTest, ReportsHaveRoomUntilTheControllerTakesNoMore) {
  connect();
  agent_.send(rpc::Assign{.first_report = 11}, agent_.identity());
  ASSERT_TRUE(connection_->next_assignment().ok());
  const int64_t last = 10 + rpc::kReportsAhead;
  EXPECT_TRUE(connection_->has_room_for(last));
  EXPECT_FALSE(connection_->has_room_for(last + 1));
  auto waits = std::async(std::launch::async, [&] { return connection_->wait_for_room(last + 64); });
  agent_.send(rpc::ReportsTaken{10 + 64}, agent_.identity());
  EXPECT_TRUE(waits.get().ok());
  EXPECT_FALSE(connection_->has_room_for(last + 65));
  auto stopped = std::async(std::launch::async, [&] { return connection_->wait_for_room(last + 65); });
  agent_.send(rpc::Stop{.reason = "Ctrl-C"}, agent_.identity());
  EXPECT_EQ(stopped.get().message(), "the worker was told to stop: Ctrl-C");
}

// A few of them are as much memory as hundreds of others.
TEST_F(ConnectionTest, LargeReportsHaveRoomForLessOfThem) {
  connect();
  agent_.send(rpc::Assign{.first_report = 1}, agent_.identity());
  ASSERT_TRUE(connection_->next_assignment().ok());
  const std::string text(size_t{1} << 20, 'x');
  int64_t sent = 0;
  for (; connection_->has_room_for(sent + 1) && sent < rpc::kReportsAhead; ++sent) {
    connection_->send(rpc::pack(rpc::Report{.index = sent + 1, .metrics = {{"text", text}}}));
  }
  EXPECT_EQ(sent, rpc::kReportBytesAhead >> 20);
  auto waits = std::async(std::launch::async, [&] { return connection_->wait_for_room(sent + 1); });
  agent_.send(rpc::ReportsTaken{4}, agent_.identity());
  EXPECT_TRUE(waits.get().ok());
  agent_.send(rpc::ReportsTaken{sent}, agent_.identity());
  for (int64_t i = 1; i <= sent; ++i) EXPECT_EQ(agent_.expect<rpc::Report>().first.index, i);
  EXPECT_TRUE(connection_->wait_for_room(sent + rpc::kReportsAhead).ok());
}

TEST_F(ConnectionTest, AReplyThatCannotBeSentIsAnError) {
  connect();
  auto asks = std::async(std::launch::async, [&] {
    return connection_->call(rpc::pack(rpc::CheckpointsRequest{}), std::chrono::milliseconds::max()).status();
  });
  rpc::Envelope refused = rpc::pack(rpc::Refused{"a checkpoints_reply cannot be sent: 2 GB"});
  refused.reply_to = agent_.expect<rpc::CheckpointsRequest>().second.request;
  ASSERT_TRUE(agent_.socket().send(std::move(refused)).ok());
  EXPECT_EQ(asks.get().message(), "a checkpoints_reply cannot be sent: 2 GB");
}

TEST_F(ConnectionTest, AMessageOverTheLimitsBecomesAFailure) {
  connect();
  rpc::Report report;
  report.metrics = {{"text", std::string(size_t{17} << 20, 'x')}};
  connection_->send(rpc::pack(report));
  const auto failed = agent_.expect<rpc::Failed>().first;
  EXPECT_NE(failed.text.find("report"), std::string::npos) << failed.text;
  EXPECT_NE(failed.text.find("too large"), std::string::npos) << failed.text;
}

TEST_F(ConnectionTest, AStopEndsTheWaitAndIsToldToTheCallback) {
  connect();
  std::promise<std::string> told;
  connection_->on_stop([&](const rpc::Stop& stop) { told.set_value(stop.reason); });
  EXPECT_FALSE(connection_->stop_reason().has_value());
  agent_.send(rpc::Stop{.reason = "enough"});
  EXPECT_FALSE(connection_->next_assignment().ValueOrDie().has_value());
  EXPECT_EQ(told.get_future().get(), "enough");
  EXPECT_EQ(connection_->stop_reason(), "enough");
  // Who asks later is told at once: no stop is lost between two callbacks.
  std::string late;
  connection_->on_stop([&](const rpc::Stop& stop) { late = stop.reason; });
  EXPECT_EQ(late, "enough");
  agent_.send(rpc::Assign{});
  EXPECT_FALSE(connection_->next_assignment().ValueOrDie().has_value());
}

TEST_F(ConnectionTest, PublishedCheckpointsAreTold) {
  connect();
  std::promise<rpc::CheckpointCommitted> told;
  connection_->on_checkpoint([&](const rpc::CheckpointCommitted& committed) { told.set_value(committed); });
  agent_.send(rpc::CheckpointCommitted{.index = 3, .path = "/run/checkpoint_000003"});
  EXPECT_EQ(told.get_future().get().path, "/run/checkpoint_000003");
}

TEST_F(ConnectionTest, IgnoresUnknownCommandsAndFormerControllers) {
  connect();
  agent_.send(rpc::Assign{.rank = {1}}, {.epoch = {5}, .attempt = {1}, .worker = {7}});
  agent_.send(rpc::Stop{.reason = "from a controller that was replaced"}, {.epoch = {4}});
  rpc::Envelope unknown;
  unknown.type = "profile";
  ASSERT_TRUE(agent_.socket().send(std::move(unknown)).ok());
  agent_.send(rpc::Assign{.rank = {2}}, {.epoch = {5}, .attempt = {1}, .worker = {7}});
  EXPECT_EQ(connection_->next_assignment().ValueOrDie()->assign.rank, Rank{1});
  EXPECT_EQ(connection_->next_assignment().ValueOrDie()->assign.rank, Rank{2});
  EXPECT_FALSE(connection_->stop_reason().has_value());
}

TEST_F(ConnectionTest, WhenTheAgentVanishesNothingWaits) {
  connect();
  const auto store = connection_->store();
  auto waiting = std::async(std::launch::async, [&] { return store->get("key", std::chrono::minutes(5)).status(); });
  agent_.expect<rpc::StoreRequest>();
  agent_.vanish();
  lost_.get_future().wait();
  EXPECT_TRUE(waiting.get().IsIOError());
  EXPECT_TRUE(connection_->next_assignment().status().IsIOError());
  connection_->send(rpc::pack(rpc::Report{}));
  EXPECT_TRUE(connection_->flush().IsIOError());
  connection_.reset();
  EXPECT_TRUE(store->set("key", "value").IsIOError()) << "a store may outlive its connection";
}

TEST_F(ConnectionTest, NonsenseFromTheAgentIsItsLoss) {
  connect();
  const std::string nonsense = "this is no frame, whatever it may be";
  ASSERT_TRUE(send_some(agent_.socket().descriptor(), std::as_bytes(std::span(nonsense)), {}).ok());
  lost_.get_future().wait();
  EXPECT_TRUE(connection_->next_assignment().status().IsIOError());
}

TEST_F(ConnectionTest, AForkedChildLeavesTheParentAlone) {
  connect();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    connection_.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  agent_.send(rpc::Assign{.rank = {4}});
  EXPECT_EQ(connection_->next_assignment().ValueOrDie()->assign.rank, Rank{4});
  connection_->send(rpc::pack(rpc::Report{.index = 9}));
  EXPECT_EQ(agent_.expect<rpc::Report>().first.index, 9);
}

TEST(ConnectionDeathTest, AProcessWithoutAgentEndsItself) {
  // Its child starts threads, so it must be a fresh process.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const SystemClock clock;
        FakeAgent agent;
        const auto connection = connect_over(agent.worker_end(), clock).ValueOrDie();
        agent.expect<rpc::Joined>();
        agent.vanish();
        while (true) ::pause();
      },
      ::testing::ExitedWithCode(kLostAgent), "");
}

TEST(Connection, RefusesAnAgentThatDoesNotWelcome) {
  const SystemClock clock;
  {
    auto [agent, worker] = make_socket_pair().ValueOrDie();
    agent.reset();
    EXPECT_TRUE(connect_over(std::move(worker), clock).status().IsIOError());
  }
  auto [agent, worker] = make_socket_pair().ValueOrDie();
  rpc::BlockingSocket socket(std::move(agent));
  ASSERT_TRUE(socket.send(rpc::pack(rpc::Stop{})).ok());
  const auto connection = connect_over(std::move(worker), clock);
  ASSERT_TRUE(connection.status().IsInvalid());
  EXPECT_NE(connection.status().message().find("wanted welcome, got stop"), std::string::npos);
}

TEST(Connection, TakesTheDescriptorAndTheVariableAway) {
  const SystemClock clock;
  EXPECT_FALSE(Connection::offered());
  EXPECT_TRUE(Connection::connect(clock).status().IsInvalid());

  for (const std::string text : {"", "abc", "-1", "1 ", "999999", "2"}) {
    ::setenv("PACELINE_CHANNEL", text.c_str(), 1);
    EXPECT_TRUE(Connection::connect(clock).status().IsInvalid()) << text;
    EXPECT_FALSE(Connection::offered());
  }

  FakeAgent agent;
  const int number = agent.worker_end().release();
  ASSERT_EQ(::fcntl(number, F_SETFD, 0), 0);
  ::setenv("PACELINE_CHANNEL", std::to_string(number).c_str(), 1);
  EXPECT_TRUE(Connection::offered());
  const auto connection = Connection::connect(clock).ValueOrDie();
  EXPECT_FALSE(Connection::offered());
  EXPECT_EQ(::fcntl(number, F_GETFD), FD_CLOEXEC) << "the process's own children do not inherit it";
}

}  // namespace
}  // namespace paceline::worker
