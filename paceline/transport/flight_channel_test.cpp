// Channels over Arrow Flight on loopback, with everything that a run has: certificates, token, listener, connector.
#include <gmock/gmock.h>

#include <future>
#include <random>

#include "paceline/testing/breaking_proxy.h"
#include "paceline/testing/channel_conformance.h"
#include "paceline/testing/listening_run.h"

namespace paceline::testing {
namespace {

using ::testing::HasSubstr;
using transport::Listener;

struct FlightChannels {
  static constexpr ChannelCapabilities kCapabilities{.carries_descriptors = false};
  ListeningRun run;
  ChannelPair make() { return run.join(); }
};

// The left end is the controller's.
struct FlightChannelsFromTheController {
  static constexpr ChannelCapabilities kCapabilities{.carries_descriptors = false};
  ListeningRun run;
  ChannelPair make() {
    auto [agent, controller] = run.join();
    return {std::move(controller), std::move(agent)};
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Flight, ChannelConformance, FlightChannels);
INSTANTIATE_TYPED_TEST_SUITE_P(FlightFromTheController, ChannelConformance, FlightChannelsFromTheController);

// Sends numbered messages both ways at once, and expects each once and in order at the other end.
void exchange(ChannelPair& pair, int64_t messages, size_t largest) {
  ChannelRecorder at_left, at_right;
  pair.left->start(at_left.handlers());
  pair.right->start(at_right.handlers());
  std::mt19937 random(static_cast<unsigned>(messages));
  for (int64_t i = 0; i < messages; ++i) {
    for (rpc::Channel* channel : {pair.left.get(), pair.right.get()}) {
      ASSERT_TRUE(channel->send(make_envelope("a", i, std::string(random() % largest, 'x'))).ok());
    }
  }
  for (ChannelRecorder* recorder : {&at_left, &at_right}) {
    for (int64_t next = 0; next < messages;) {
      const auto received = recorder->take(1);
      ASSERT_FALSE(received.empty()) << "of " << messages << " came " << next;
      for (const rpc::Envelope& envelope : received) ASSERT_EQ(number_in(envelope), next++);
    }
  }
  pair.left.reset();
  pair.right.reset();
}

TEST(FlightChannel, SaysWhoHasCome) {
  ListeningRun run;
  ChannelPair pair = run.join();
  EXPECT_EQ(run.last_peer().name, "node-7");
  EXPECT_EQ(run.last_peer().id.size(), 32u);
  EXPECT_THAT(run.last_peer().address, HasSubstr("127.0.0.1"));
}

TEST(FlightChannel, ReachesTheControllerOverIpv6AndWhicheverAddressAnswers) {
  ListeningRun run(std::chrono::seconds(30), "[::1]:0");
  auto options = run.options();
  EXPECT_THAT(options.addresses[0], HasSubstr("[::1]:"));
  const Descriptor nobody = loopback_socket(0);  // accepts, and says nothing
  const int closed = port_of(loopback_socket(0));
  options.lease = std::chrono::seconds(2);  // of it an attempt gets a quarter
  options.addresses = {"127.0.0.1:" + std::to_string(closed), "127.0.0.1:" + std::to_string(port_of(nobody)),
                       run.address()};
  ChannelPair pair = run.join(options);
  exchange(pair, 20, 1000);
}

TEST(FlightChannel, SeveralRunsInOneProcessDoNotMeet) {
  ListeningRun one(std::chrono::seconds(30), "127.0.0.1:0", "one"), two(std::chrono::seconds(30), "127.0.0.1:0", "two");
  ChannelPair first = one.join(), second = two.join();
  exchange(first, 20, 1000);
  exchange(second, 20, 1000);
  EXPECT_EQ(one.arrivals(), 1);
  EXPECT_EQ(two.arrivals(), 1);
}

// In the middle of each message: a connection carries from some hundred bytes, within the greeting, to some ten
// thousand.
TEST(FlightChannel, EverythingComesOnceWhereverTheConnectionIsCut) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    ListeningRun run;
    std::mt19937 random(seed);
    std::vector<size_t> limits;
    for (int i = 0; i < 25; ++i) limits.push_back(500 + random() % (i % 4 == 0 ? 6000 : 60'000));
    BreakingProxy proxy(run.port(), [&](int connection) {
      return static_cast<size_t>(connection) < limits.size() ? limits[static_cast<size_t>(connection)] : 0;
    });
    auto options = run.options();
    options.addresses = {proxy.address()};
    ChannelPair pair = run.join(options);
    exchange(pair, 100, 20'000);
    EXPECT_GT(proxy.connections(), 5);
    EXPECT_EQ(run.arrivals(), 1);
    if (::testing::Test::HasFailure()) return;
  }
}

// A port that is used again, a proxy that answers itself: what is there for a while says nothing of a session that
// lives.
TEST(FlightChannel, AStrangerAtItsAddressForAWhileEndsNoSession) {
  ListeningRun run, other;
  BreakingProxy proxy([&](int connection) { return connection == 1 || connection == 2 ? other.port() : run.port(); },
                      [](int connection) { return connection == 0 ? size_t{20'000} : 0; });
  auto options = run.options();
  options.addresses = {proxy.address()};
  ChannelPair pair = run.join(options);
  exchange(pair, 20, 20'000);
  EXPECT_GE(proxy.connections(), 4);
  EXPECT_EQ(run.arrivals(), 1);
}

TEST(FlightChannel, AHalfOpenConnectionIsFoundAndAnotherGoesOn) {
  ListeningRun run(std::chrono::seconds(2));
  BreakingProxy proxy(run.port(), [](int) { return 0; });
  auto options = run.options();
  options.addresses = {proxy.address()};
  ChannelPair pair = run.join(options);
  ChannelRecorder at_left, at_right;
  pair.left->start(at_left.handlers());
  pair.right->start(at_right.handlers());
  ASSERT_TRUE(pair.left->send(make_envelope("before", 1)).ok());
  EXPECT_EQ(at_right.take(1).size(), 1u);
  proxy.freeze();
  ASSERT_TRUE(pair.left->send(make_envelope("meanwhile", 2)).ok());
  ASSERT_TRUE(pair.right->send(make_envelope("meanwhile", 2)).ok());
  proxy.thaw();  // for new connections only
  EXPECT_EQ(at_right.take(1).size(), 1u);
  EXPECT_EQ(at_left.take(1).size(), 1u);
  EXPECT_GE(proxy.connections(), 2);
  EXPECT_EQ(at_left.closes() + at_right.closes(), 0);
}

TEST(FlightChannel, BothEndsNoticeWithinTheLeaseThatNothingGetsThrough) {
  ListeningRun run(std::chrono::seconds(1));
  BreakingProxy proxy(run.port(), [](int) { return 0; });
  auto options = run.options();
  options.addresses = {proxy.address()};
  ChannelPair pair = run.join(options);
  ChannelRecorder at_left, at_right;
  pair.left->start(at_left.handlers());
  pair.right->start(at_right.handlers());
  const auto begin = std::chrono::steady_clock::now();
  proxy.freeze();
  const auto left = at_left.wait_closed(), right = at_right.wait_closed();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  ASSERT_TRUE(left.has_value() && right.has_value());
  EXPECT_TRUE(left->IsIOError() && right->IsIOError());
  EXPECT_THAT(left->message(), HasSubstr("nothing was heard from the controller of run run-1"));
  EXPECT_THAT(right->message(), HasSubstr("nothing was heard from node-7 (ipv4:127.0.0.1"));
}

TEST(FlightChannel, AControllerThatIsGoneEndsTheChannelAfterTheLease) {
  auto run = std::make_unique<ListeningRun>(std::chrono::seconds(1));
  ChannelPair pair = run->join();
  ChannelRecorder at_left;
  pair.left->start(at_left.handlers());
  run->close();
  const auto reason = at_left.wait_closed();
  ASSERT_TRUE(reason.has_value());
  EXPECT_TRUE(reason->IsIOError());
  EXPECT_THAT(reason->message(), HasSubstr("nothing was heard from the controller of run run-1 for 1"));
}

TEST(FlightChannel, AnAgentOfAControllerThatWasRestartedIsRefused) {
  ListeningRun run;
  const std::string address = run.address();
  ChannelPair pair = run.join();
  ChannelRecorder at_left;
  pair.left->start(at_left.handlers());
  run.close();
  run.open(address);
  const auto reason = at_left.wait_closed();
  ASSERT_TRUE(reason.has_value());
  EXPECT_THAT(reason->message(), HasSubstr("does not know the agent node-7"));
  EXPECT_EQ(run.arrivals(), 1);
}

TEST(FlightChannel, ConnectingToNowhereEndsAndSaysWhatHappened) {
  ListeningRun run;
  auto options = run.options();
  const std::string closed = "127.0.0.1:" + std::to_string(port_of(loopback_socket(0)));
  options.addresses = {closed};
  options.patience = std::chrono::milliseconds(300);
  const auto channel = transport::connect(options);
  EXPECT_TRUE(channel.status().IsIOError());
  EXPECT_THAT(channel.status().message(), HasSubstr("the controller of run run-1 was not reached; " + closed));
  EXPECT_THAT(channel.status().message(), HasSubstr("refused"));
  options.addresses = {"nonsense"};
  EXPECT_TRUE(transport::connect(options).status().IsInvalid());
  options.addresses = {};
  EXPECT_TRUE(transport::connect(options).status().IsInvalid());
}

TEST(FlightChannel, ConnectingToSomebodySilentEndsAndCanBeCancelled) {
  ListeningRun run;
  const Descriptor silent = loopback_socket(0);
  auto options = run.options();
  options.addresses = {"127.0.0.1:" + std::to_string(port_of(silent))};
  options.lease = std::chrono::seconds(2);
  options.patience = std::chrono::hours(1);
  std::stop_source stop;
  auto connecting = std::async(std::launch::async, [&] { return transport::connect(options, stop.get_token()); });
  stop.request_stop();
  EXPECT_TRUE(connecting.get().status().IsCancelled());
}

TEST(FlightChannel, TheListenerEndsAlthoughAnAgentIsHalfOpen) {
  ListeningRun run;
  BreakingProxy proxy(run.port(), [](int) { return 0; });
  auto options = run.options();
  options.addresses = {proxy.address()};
  options.linger = std::chrono::milliseconds(0);
  ChannelPair pair = run.join(options);
  proxy.freeze();
  const auto begin = std::chrono::steady_clock::now();
  run.close();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(FlightChannel, WhatWasSentBeforeTheEndIsDelivered) {
  ListeningRun run;
  ChannelPair pair = run.join();
  ChannelRecorder at_left, at_right;
  pair.left->start(at_left.handlers());
  pair.right->start(at_right.handlers());
  ASSERT_TRUE(pair.left->send(make_envelope("last", 1, std::string(5'000'000, 'x'))).ok());
  pair.left.reset();
  EXPECT_EQ(at_right.take(1).size(), 1u);
  ASSERT_TRUE(at_right.wait_closed()->ok());

  ChannelPair second = run.join();
  ChannelRecorder at_agent;
  second.left->start(at_agent.handlers());
  ASSERT_TRUE(second.right->send(make_envelope("last", 1, std::string(5'000'000, 'x'))).ok());
  second.right.reset();
  run.close();
  EXPECT_EQ(at_agent.take(1).size(), 1u) << "the listener waits for what closed channels have sent";
  ASSERT_TRUE(at_agent.wait_closed()->ok());
}

TEST(FlightChannel, OneThatOutlivesItsListenerHasEnded) {
  ListeningRun run;
  ChannelPair pair = run.join();
  run.close();
  EXPECT_TRUE(pair.right->send(make_envelope("late")).IsIOError());
  ChannelRecorder at_right;
  pair.right->start(at_right.handlers());
  EXPECT_TRUE(at_right.wait_closed().has_value());
}

TEST(FlightChannel, AddressesAreChecked) {
  using transport::parse_address;
  EXPECT_EQ(parse_address("node-7:80").ValueOrDie(), (std::pair<std::string, int>("node-7", 80)));
  EXPECT_EQ(parse_address("[fd00::1]:0").ValueOrDie(), (std::pair<std::string, int>("[fd00::1]", 0)));
  for (const char* wrong : {"", "node", ":80", "node:", "node:x", "node:65536", "node:-1", "::1:80", "[]:80", "a/b:80",
                            "node:80 ", "user@node:80"}) {
    EXPECT_TRUE(parse_address(wrong).status().IsInvalid()) << wrong;
  }
  EXPECT_TRUE(Listener::open({.address = "nonsense"}).status().IsInvalid());
}

}  // namespace
}  // namespace paceline::testing
