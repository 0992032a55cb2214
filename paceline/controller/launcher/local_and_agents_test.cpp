#include "paceline/controller/launcher/local_and_agents.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <future>

#include "paceline/testing/temporary_folder.h"
#include "paceline/transport/connector.h"
#include "paceline/transport/trust_file.h"

namespace paceline::controller {
namespace {

using ::testing::HasSubstr;

class LocalAndAgentsTest : public ::testing::Test {
 protected:
  LocalAndAgentsTest() {
    scaling_.engine = "local_and_agents";
    scaling_.nodes = 2;
    scaling_.listen = "127.0.0.1:0";
    scaling_.token_file = folder_ / "token";
  }
  std::unique_ptr<Launcher> launcher() { return make_launcher({guardian_, scaling_, failure_, node_}).ValueOrDie(); }

  const agent::Guardian guardian_ = agent::Guardian::fork_now().ValueOrDie();
  const paceline::testing::TemporaryFolder folder_;
  ScalingConfig scaling_;
  FailureConfig failure_;
  agent::NodeOptions node_;
};

// What the next agent says first.
struct NextAgent {
  std::promise<rpc::NodeReady> ready;
  std::unique_ptr<rpc::Channel> channel;

  void take(std::unique_ptr<rpc::Channel> agent) {
    channel = std::move(agent);
    channel->start({.on_message =
                        [this](const rpc::Envelope& message) {
                          if (message.type != rpc::NodeReady::kType) return;
                          ready.set_value(rpc::unpack<rpc::NodeReady>(message).ValueOrDie());
                        },
                    .on_close = [](const arrow::Status&) {}});
  }
};

TEST_F(LocalAndAgentsTest, TheOneHereComesFirstAndOthersByTheFile) {
  node_ = {.name = "here", .rank = 0, .workers = 3};
  NextAgent first, second;
  const auto launched = launcher();
  int count = 0;
  const auto launch = launched->launch({.on_agent = [&](std::unique_ptr<rpc::Channel> agent) {
    (count++ == 0 ? first : second).take(std::move(agent));
  }});
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->agents, 2);
  EXPECT_TRUE(launch->others_may_come);
  const rpc::NodeReady here = first.ready.get_future().get();
  EXPECT_EQ(here.node, "here");
  EXPECT_EQ(here.address, "127.0.0.1") << "where the others' workers find those here";
  EXPECT_EQ(here.rank, 0);
  EXPECT_EQ(here.workers, 3);

  const auto file = transport::read_trust_file(scaling_.token_file).ValueOrDie();
  auto agent = transport::connect(
      {.addresses = file.addresses, .run = file.run, .name = "there", .credentials = file.credentials});
  ASSERT_TRUE(agent.ok()) << agent.status();
  ASSERT_TRUE((*agent)->send(rpc::pack(rpc::NodeReady{.node = "there"})).ok());
  EXPECT_EQ(second.ready.get_future().get().node, "there");
  first.channel.reset();
  second.channel.reset();
}

TEST_F(LocalAndAgentsTest, TheFileOfAnotherRunStays) {
  {
    NextAgent first;
    const auto launched = launcher();
    ASSERT_TRUE(launched->launch({.on_agent = [&](auto agent) { first.take(std::move(agent)); }}).ok());
    const auto trust = transport::make_trust().ValueOrDie();
    const std::string another = scaling_.token_file + "_of_another";
    ASSERT_TRUE(transport::write_trust_file(
                    another, {.run = "another", .addresses = {"127.0.0.1:1"}, .credentials = trust.agent})
                    .ok());
    std::filesystem::rename(another, scaling_.token_file);
  }
  EXPECT_EQ(transport::read_trust_file(scaling_.token_file).ValueOrDie().run, "another");
}

TEST_F(LocalAndAgentsTest, ASecondRunOnTheFileOfOneThatGoesOnIsRefused) {
  NextAgent first;
  auto launched = launcher();
  ASSERT_TRUE(launched->launch({.on_agent = [&](auto agent) { first.take(std::move(agent)); }}).ok());
  const auto file = transport::read_trust_file(scaling_.token_file).ValueOrDie();
  const auto refused = launcher()->launch({.on_agent = [](auto) {}}).status();
  EXPECT_TRUE(refused.IsAlreadyExists()) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("the token file " + scaling_.token_file + " is in use: run " + file.run +
                                           " that wrote it still goes on at " + file.addresses.front()));
  EXPECT_EQ(transport::read_trust_file(scaling_.token_file).ValueOrDie().run, file.run);
  first.channel.reset();
  launched.reset();
  NextAgent later;
  EXPECT_TRUE(launcher()->launch({.on_agent = [&](auto agent) { later.take(std::move(agent)); }}).ok());
}

TEST_F(LocalAndAgentsTest, TheFileGoesWithTheRun) {
  {
    NextAgent first;
    const auto launched = launcher();
    ASSERT_TRUE(launched->launch({.on_agent = [&](auto agent) { first.take(std::move(agent)); }}).ok());
    EXPECT_TRUE(std::filesystem::exists(scaling_.token_file));
  }
  EXPECT_FALSE(std::filesystem::exists(scaling_.token_file));
}

TEST_F(LocalAndAgentsTest, WhatIsMissingIsNamed) {
  scaling_.token_file = "";
  EXPECT_THAT(make_launcher({guardian_, scaling_, failure_}).status().message(),
              HasSubstr("ScalingConfig.token_file is \"\"; engine \"local_and_agents\" needs"));
}

}  // namespace
}  // namespace paceline::controller
