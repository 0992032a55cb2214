#include "paceline/transport/resumable_channel.h"

#include <future>
#include <latch>
#include <random>

#include "paceline/testing/channel_conformance.h"
#include "paceline/testing/joined_sessions.h"

namespace paceline::testing {
namespace {

using transport::FrameKind;
using transport::Session;

// Channels over connections with the faults of `Network`.
template <class Network>
struct ResumableChannels {
  static constexpr ChannelCapabilities kCapabilities{.carries_descriptors = false};
  std::vector<std::unique_ptr<JoinedSessions>> joined;
  ChannelPair make() {
    const JoinedSessions& sessions = *joined.emplace_back(std::make_unique<JoinedSessions>(Network::faults));
    return {std::make_unique<transport::ResumableChannel>(sessions.left()),
            std::make_unique<transport::ResumableChannel>(sessions.right())};
  }
};

struct Clean {
  static Faults faults(int) { return {}; }
};
struct Slow {
  static Faults faults(int) { return {.delay = std::chrono::milliseconds(2)}; }
};
struct Cut {
  static Faults faults(int connection) {
    std::mt19937 random(static_cast<unsigned>(connection));
    return {.cut_after = 1 + static_cast<int>(random() % 12)};
  }
};
struct SlowAndCut {
  static Faults faults(int connection) {
    Faults faults = Cut::faults(connection);
    faults.delay = std::chrono::microseconds(200);
    faults.cut_after += 4;
    return faults;
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(ResumableOverCleanLinks, ChannelConformance, ResumableChannels<Clean>);
INSTANTIATE_TYPED_TEST_SUITE_P(ResumableOverSlowLinks, ChannelConformance, ResumableChannels<Slow>);
INSTANTIATE_TYPED_TEST_SUITE_P(ResumableOverLinksThatAreCut, ChannelConformance, ResumableChannels<Cut>);
INSTANTIATE_TYPED_TEST_SUITE_P(ResumableOverSlowLinksThatAreCut, ChannelConformance, ResumableChannels<SlowAndCut>);

TEST(ResumableChannel, MessagesComeOnceAndInOrderOverManyConnections) {
  constexpr int64_t kMessages = 400;
  JoinedSessions sessions(Cut::faults);
  transport::ResumableChannel left(sessions.left()), right(sessions.right());
  ChannelRecorder at_left, at_right;
  left.start(at_left.handlers());
  right.start(at_right.handlers());
  // One after another, so that each connection carries only a few.
  for (int64_t i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(left.send(make_envelope("there", i, std::string(1 + i * 7 % 5000, 'x'))).ok());
    const auto there = at_right.take(1);
    ASSERT_EQ(there.size(), 1u);
    ASSERT_EQ(number_in(there[0]), i);
    ASSERT_TRUE(right.send(make_envelope("back", i)).ok());
    const auto back = at_left.take(1);
    ASSERT_EQ(back.size(), 1u);
    ASSERT_EQ(number_in(back[0]), i);
  }
  EXPECT_GT(sessions.connections(), 20);
  left.close();
  const auto reason = at_right.wait_closed();
  ASSERT_TRUE(reason.has_value());
  EXPECT_TRUE(reason->ok()) << *reason;
}

TEST(ResumableChannel, AConnectionThatFallsSilentIsGivenUpAndTheNextGoesOn) {
  const Duration lease = std::chrono::milliseconds(400);
  JoinedSessions sessions([](int connection) { return Faults{.silent_after = connection < 2 ? 3 : 0}; }, lease);
  transport::ResumableChannel left(sessions.left()), right(sessions.right());
  ChannelRecorder at_left, at_right;
  left.start(at_left.handlers());
  right.start(at_right.handlers());
  // One after another, so that each takes a frame.
  for (int64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(left.send(make_envelope("a", i)).ok());
    const auto received = at_right.take(1);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(number_in(received[0]), i);
  }
  EXPECT_EQ(sessions.connections(), 3);
}

// One session, whose peer is the test; time passes when the test says so.
class SessionAndRawPeer : public ::testing::Test {
 protected:
  static constexpr Duration kLease = std::chrono::seconds(40);

  SessionAndRawPeer()
      : threads_(std::make_shared<transport::SharedThreads>(clock_)),
        session_(Session::make(
            threads_,
            {.peer = "node-7", .lease = kLease, .on_link_lost = [this] { ++lost_; }, .on_end = [this] { ++ended_; }})),
        channel_(std::make_unique<transport::ResumableChannel>(session_)) {}

  ~SessionAndRawPeer() override {
    session_->end(arrow::Status::Cancelled("the test is over"));
    if (serving_.valid()) serving_.wait();
    threads_->stop();
    channel_.reset();
  }

  void connect(Faults faults = {}) {
    const auto links = make_faulty_links(faults);
    peer_ = links.second;
    serving_ = std::async(std::launch::async, [this, link = links.first, here = session_->prepare()] {
      return session_->serve(here, link, 0);
    });
  }
  // Returns when the session uses the connection.
  void connect_and_wait() {
    connect();
    ASSERT_TRUE(channel_->send(make_envelope("connected")).ok());
    EXPECT_EQ(read().kind, FrameKind::data);
  }
  void pass(Duration time) {
    clock_->advance(time);
    (void)session_->look(clock_->now());
  }
  static std::string envelope_bytes(const rpc::Envelope& envelope) {
    return rpc::encode_frame_start(envelope).ValueOrDie() + envelope.bytes;
  }
  arrow::Status write(FrameKind kind, int64_t offset, const std::string& bytes = {}, int64_t acknowledged = 0) {
    return peer_->write(encode_header(kind, offset, acknowledged) + bytes);
  }
  transport::WireFrame read() {
    buffer_ = peer_->read().ValueOrDie();
    return transport::decode_wire_frame(std::string_view(*buffer_)).ValueOrDie();
  }

  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  std::shared_ptr<transport::SharedThreads> threads_;
  ChannelRecorder recorder_;
  std::atomic<int> lost_ = 0, ended_ = 0;
  std::shared_ptr<Session> session_;
  std::unique_ptr<transport::ResumableChannel> channel_;
  std::shared_ptr<transport::Link> peer_;
  std::shared_ptr<arrow::Buffer> buffer_;
  std::future<arrow::Status> serving_;
};

TEST_F(SessionAndRawPeer, EndsAfterALeaseWithoutAWordAndSaysFromWhom) {
  channel_->start(recorder_.handlers());
  pass(kLease - std::chrono::seconds(1));
  EXPECT_FALSE(session_->has_ended());
  pass(std::chrono::seconds(1));
  const auto reason = recorder_.wait_closed();
  ASSERT_TRUE(reason.has_value());
  EXPECT_TRUE(reason->IsIOError()) << *reason;
  EXPECT_EQ(reason->message(),
            "nothing was heard from node-7 for 40.0 s, since 1970-01-01T00:00:00.000Z (the lease is 40.0 s)");
  EXPECT_EQ(channel_->send(make_envelope("late")).message(), reason->message());
  EXPECT_EQ(ended_, 1);
}

TEST_F(SessionAndRawPeer, IsToldOfTheEndAlsoWhenItStartsLater) {
  pass(kLease);
  EXPECT_TRUE(session_->has_ended());
  channel_->start(recorder_.handlers());
  EXPECT_TRUE(recorder_.wait_closed().has_value());
}

TEST_F(SessionAndRawPeer, GivesUpASilentConnectionAfterHalfTheLeaseAndThenWaitsForAnother) {
  channel_->start(recorder_.handlers());
  connect();
  ASSERT_TRUE(write(FrameKind::data, 0, envelope_bytes(make_envelope("first", 1))).ok());
  EXPECT_EQ(recorder_.take(1).size(), 1u);
  // The thread that reads may still have been busy with the message the first time.
  while (lost_ == 0) pass(kLease / 2);
  EXPECT_TRUE(serving_.get().IsIOError());
  EXPECT_EQ(lost_, 1);
  EXPECT_FALSE(session_->has_ended());
  connect_and_wait();
  pass(kLease / 4);
  EXPECT_EQ(read().acknowledged, std::ssize(envelope_bytes(make_envelope("first", 1)))) << "a heartbeat";
  EXPECT_EQ(recorder_.closes(), 0);
}

TEST_F(SessionAndRawPeer, SaysSomethingEveryHeartbeat) {
  EXPECT_EQ(transport::heartbeat_of(std::chrono::seconds(4)), std::chrono::milliseconds(500));
  EXPECT_EQ(transport::heartbeat_of(std::chrono::minutes(5)), std::chrono::seconds(5));
  connect_and_wait();
  for (int i = 0; i < 3; ++i) {
    pass(transport::heartbeat_of(kLease));
    EXPECT_EQ(read().kind, FrameKind::heartbeat);
  }
}

TEST_F(SessionAndRawPeer, APeerIsNotSilentWhileTheHandlerIsBusy) {
  std::promise<void> begun;
  // The handler's, too: it may still be waking up when the test is over.
  const auto finish = std::make_shared<std::latch>(1);
  channel_->start({.on_message =
                       [&begun, finish](const rpc::Envelope&) {
                         begun.set_value();
                         finish->wait();
                       },
                   .on_close = [](const arrow::Status&) {}});
  connect();
  ASSERT_TRUE(write(FrameKind::data, 0, envelope_bytes(make_envelope("first"))).ok());
  begun.get_future().wait();
  pass(2 * kLease);
  EXPECT_EQ(lost_, 0);
  finish->count_down();
}

TEST_F(SessionAndRawPeer, AcknowledgesBeforeTheHeartbeatWhenMuchHasCome) {
  channel_->start(recorder_.handlers());
  connect();
  const std::string bytes = envelope_bytes(make_envelope("large", 1, std::string(300'000, 'x')));
  ASSERT_TRUE(write(FrameKind::data, 0, bytes).ok());
  EXPECT_EQ(read().acknowledged, std::ssize(bytes));
}

TEST_F(SessionAndRawPeer, NonsenseEndsTheChannelWithInvalid) {
  channel_->start(recorder_.handlers());
  connect();
  ASSERT_TRUE(peer_->write("GET / HTTP/1.1").ok());
  const auto reason = recorder_.wait_closed();
  ASSERT_TRUE(reason.has_value());
  EXPECT_TRUE(reason->IsInvalid()) << *reason;
  EXPECT_TRUE(serving_.get().IsInvalid());
}

TEST_F(SessionAndRawPeer, AGapInTheStreamEndsTheChannelWithInvalid) {
  channel_->start(recorder_.handlers());
  connect();
  ASSERT_TRUE(write(FrameKind::data, 5, "abc").ok());
  EXPECT_TRUE(recorder_.wait_closed()->IsInvalid());
}

TEST_F(SessionAndRawPeer, AnAcknowledgementOfWhatWasNotSentEndsTheChannelWithInvalid) {
  channel_->start(recorder_.handlers());
  connect();
  ASSERT_TRUE(write(FrameKind::heartbeat, 0, "", 1).ok());
  EXPECT_TRUE(recorder_.wait_closed()->IsInvalid());
}

TEST_F(SessionAndRawPeer, RefusesAPeerThatWantsWhatIsNotThere) {
  const auto links = make_faulty_links();
  EXPECT_TRUE(session_->serve(session_->prepare(), links.first, 17).IsInvalid());
  EXPECT_FALSE(session_->was_connected());
  connect_and_wait();
}

TEST_F(SessionAndRawPeer, OnlyTheLatestOfTwoConnectionsIsUsed) {
  const auto first = session_->prepare();
  const auto links = make_faulty_links();
  connect();
  EXPECT_TRUE(session_->serve(first, links.first, 0).IsInvalid());
}

TEST_F(SessionAndRawPeer, IsDoneWithAPeerThatHasTheAnswerToItsCloseAndGoesAtOnce) {
  for (int i = 0; i < 200; ++i) {
    const auto session = Session::make(threads_, {.peer = "node-7"});
    const auto links = make_faulty_links();
    const auto serving =
        std::async(std::launch::async, [&] { return session->serve(session->prepare(), links.first, 0); });
    ASSERT_TRUE(links.second->write(encode_header(FrameKind::close, 0, 0)).ok());
    ASSERT_TRUE(links.second->read().ok());
    links.second->close();
    serving.wait();
    ASSERT_TRUE(session->has_ended()) << i;
  }
}

TEST_F(SessionAndRawPeer, ClosingTakesALeaseAtMost) {
  ASSERT_TRUE(channel_->send(make_envelope("never taken")).ok());
  channel_->close();
  connect();
  // The peer lives, but does not answer.
  for (int i = 0; i < 8 && !session_->has_ended(); ++i) {
    (void)write(FrameKind::heartbeat, 0);
    pass(kLease / 8);
  }
  EXPECT_TRUE(session_->has_ended());
}

TEST_F(SessionAndRawPeer, WhatWasNotAcknowledgedIsSentAgainOverTheNextConnection) {
  connect();
  ASSERT_TRUE(channel_->send(make_envelope("first")).ok());
  const std::string first(read().bytes);
  peer_->close();
  EXPECT_TRUE(serving_.get().IsIOError());
  connect();
  EXPECT_EQ(read().bytes, first);
  EXPECT_EQ(lost_, 1);
}

}  // namespace
}  // namespace paceline::testing
