// What every Channel must do: one suite, run against each implementation.
//
//     struct MemoryChannels {
//       static constexpr ChannelCapabilities kCapabilities{};
//       ChannelPair make();      // two joined ends; what they need to live may stay in the factory
//     };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Memory, ChannelConformance, MemoryChannels);
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "paceline/core/posix/shared_memory.h"
#include "paceline/rpc/channel.h"

namespace paceline::testing {

struct ChannelCapabilities {
  /// send() returns although the peer does not read. Not so with blocking sockets.
  bool send_never_blocks = true;
  /// Descriptors travel with their messages. Not so between machines.
  bool carries_descriptors = true;
};

struct ChannelPair {
  std::unique_ptr<rpc::Channel> left;
  std::unique_ptr<rpc::Channel> right;
};

/// Keeps what a channel's handlers are given, and waits for it.
class ChannelRecorder {
 public:
  rpc::Channel::Handlers handlers() {
    return {.on_message = [this](rpc::Envelope envelope) { add(std::move(envelope)); },
            .on_close = [this](arrow::Status reason) { close(std::move(reason)); }};
  }

  /// Waits until `count` messages have come, or the channel has closed, and takes them.
  std::vector<rpc::Envelope> take(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kGuard, [&] { return messages_.size() >= count || closes_ > 0; });
    return std::exchange(messages_, {});
  }

  /// Waits for on_close and gives its status; nullopt when it did not come.
  std::optional<arrow::Status> wait_closed() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kGuard, [&] { return closes_ > 0; });
    return reason_;
  }

  int closes() {
    const std::lock_guard lock(mutex_);
    return closes_;
  }
  bool overlapped() const { return overlapped_; }

 private:
  static constexpr std::chrono::seconds kGuard{60};

  // Notices a handler that is called while another one runs, or after the last.
  struct Inside {
    explicit Inside(ChannelRecorder& recorder) : recorder(recorder) {
      if (recorder.inside_.exchange(true)) recorder.overlapped_ = true;
    }
    ~Inside() { recorder.inside_ = false; }
    ChannelRecorder& recorder;
  };

  void add(rpc::Envelope envelope) {
    const Inside inside(*this);
    const std::lock_guard lock(mutex_);
    if (closes_ > 0) overlapped_ = true;
    messages_.push_back(std::move(envelope));
    changed_.notify_all();
  }

  void close(arrow::Status reason) {
    const Inside inside(*this);
    const std::lock_guard lock(mutex_);
    ++closes_;
    reason_ = std::move(reason);
    changed_.notify_all();
  }

  std::atomic<bool> inside_ = false;
  std::atomic<bool> overlapped_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<rpc::Envelope> messages_;
  std::optional<arrow::Status> reason_;
  int closes_ = 0;
};

inline rpc::Envelope make_envelope(const std::string& type, int64_t number = 0, std::string bytes = {}) {
  rpc::Envelope envelope;
  envelope.type = type;
  envelope.body = {{"number", number}};
  envelope.bytes = std::move(bytes);
  return envelope;
}

inline int64_t number_in(const rpc::Envelope& envelope) {
  return envelope.body.at("number").get<int64_t>();
}

template <class Factory>
class ChannelConformance : public ::testing::Test {
 protected:
  ChannelConformance() : pair_(factory_.make()) {}

  // The recorders outlive the channels, the factory all.
  Factory factory_;
  ChannelRecorder left_;
  ChannelRecorder right_;
  ChannelPair pair_;
};

TYPED_TEST_SUITE_P(ChannelConformance);

TYPED_TEST_P(ChannelConformance, CarriesEveryFieldOfAnEnvelope) {
  this->pair_.right->start(this->right_.handlers());
  rpc::Envelope envelope = make_envelope("report", 7, std::string("by\0tes", 6));
  envelope.identity = {.epoch = {1}, .attempt = {2}, .generation = {3}, .worker = {4}};
  envelope.request = 11;
  envelope.reply_to = 12;
  ASSERT_TRUE(this->pair_.left->send(std::move(envelope)).ok());
  const auto received = this->right_.take(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].type, "report");
  EXPECT_EQ(received[0].identity, (Identity{.epoch = {1}, .attempt = {2}, .generation = {3}, .worker = {4}}));
  EXPECT_EQ(received[0].sequence, 1);
  EXPECT_EQ(received[0].request, 11);
  EXPECT_EQ(received[0].reply_to, 12);
  EXPECT_EQ(number_in(received[0]), 7);
  EXPECT_EQ(received[0].bytes, std::string("by\0tes", 6));
}

TYPED_TEST_P(ChannelConformance, KeepsOrderInBothDirectionsAndWhatCameBeforeStart) {
  constexpr int64_t kMessages = 1000;
  auto& [left, right] = this->pair_;
  for (int64_t i = 0; i < 50; ++i) ASSERT_TRUE(left->send(make_envelope("a", i)).ok());
  left->start(this->left_.handlers());
  right->start(this->right_.handlers());
  for (int64_t i = 50; i < kMessages; ++i) ASSERT_TRUE(left->send(make_envelope("a", i)).ok());
  for (int64_t i = 0; i < kMessages; ++i) ASSERT_TRUE(right->send(make_envelope("b", i)).ok());
  size_t expected = 0;
  for (ChannelRecorder* recorder : {&this->right_, &this->left_}) {
    for (expected = 0; expected < kMessages;) {
      const auto received = recorder->take(1);
      ASSERT_FALSE(received.empty());
      for (const auto& envelope : received) {
        ASSERT_EQ(number_in(envelope), static_cast<int64_t>(expected));
        ASSERT_EQ(envelope.sequence, static_cast<int64_t>(++expected));
      }
    }
  }
}

TYPED_TEST_P(ChannelConformance, ManyThreadsSendAndEachKeepsItsOrder) {
  constexpr int kThreads = 4;
  constexpr int64_t kMessages = 500;
  this->pair_.right->start(this->right_.handlers());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t i = 0; i < kMessages; ++i) {
        ASSERT_TRUE(this->pair_.left->send(make_envelope(std::to_string(thread), i, std::string(i, 'x'))).ok());
      }
    });
  }
  std::vector<rpc::Envelope> received;
  while (received.size() < kThreads * kMessages) {
    auto more = this->right_.take(1);
    if (more.empty()) break;
    std::move(more.begin(), more.end(), std::back_inserter(received));
  }
  for (auto& thread : threads) thread.join();
  ASSERT_EQ(received.size(), static_cast<size_t>(kThreads * kMessages));
  std::map<std::string, int64_t> next;
  for (size_t i = 0; i < received.size(); ++i) {
    EXPECT_EQ(received[i].sequence, static_cast<int64_t>(i + 1));
    EXPECT_EQ(number_in(received[i]), next[received[i].type]++);
  }
  EXPECT_FALSE(this->right_.overlapped());
}

TYPED_TEST_P(ChannelConformance, CarriesLargeBytes) {
  this->pair_.right->start(this->right_.handlers());
  std::string bytes(size_t{32} << 20, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 24);
  ASSERT_TRUE(this->pair_.left->send(make_envelope("large", 1, bytes)).ok());
  ASSERT_TRUE(this->pair_.left->send(make_envelope("small", 2)).ok());
  std::vector<rpc::Envelope> received = this->right_.take(2);
  ASSERT_EQ(received.size(), 2u);
  EXPECT_TRUE(received[0].bytes == bytes);
  EXPECT_EQ(number_in(received[1]), 2);
}

TYPED_TEST_P(ChannelConformance, CloseDeliversWhatIsQueuedThenTellsThePeerOnce) {
  constexpr int64_t kMessages = 50;
  auto& [left, right] = this->pair_;
  left->start(this->left_.handlers());
  if (!TypeParam::kCapabilities.send_never_blocks) right->start(this->right_.handlers());
  for (int64_t i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(left->send(make_envelope("a", i, std::string(50'000, 'x'))).ok());
  }
  left->close();
  left->close();
  if (TypeParam::kCapabilities.send_never_blocks) right->start(this->right_.handlers());
  const auto reason = this->right_.wait_closed();
  ASSERT_TRUE(reason.has_value());
  EXPECT_TRUE(reason->ok()) << *reason;
  EXPECT_EQ(this->right_.take(kMessages).size(), static_cast<size_t>(kMessages));
  EXPECT_TRUE(right->send(make_envelope("late")).IsIOError());
  left.reset();
  right.reset();
  EXPECT_EQ(this->right_.closes(), 1);
  EXPECT_EQ(this->left_.closes(), 0) << "an end that closes itself is not told";
  EXPECT_FALSE(this->right_.overlapped());
}

TYPED_TEST_P(ChannelConformance, SendAfterCloseIsAnError) {
  this->pair_.left->close();
  EXPECT_TRUE(this->pair_.left->send(make_envelope("late")).IsIOError());
}

TYPED_TEST_P(ChannelConformance, APeerThatIsDestroyedIsToldOnce) {
  auto& [left, right] = this->pair_;
  right->start(this->right_.handlers());
  ASSERT_TRUE(left->send(make_envelope("last")).ok());
  left.reset();
  EXPECT_EQ(this->right_.take(1).size(), 1u);
  ASSERT_TRUE(this->right_.wait_closed().has_value());
  right.reset();
  EXPECT_EQ(this->right_.closes(), 1);
}

TYPED_TEST_P(ChannelConformance, SendNeverBlocksOnAPeerThatDoesNotRead) {
  if (!TypeParam::kCapabilities.send_never_blocks) GTEST_SKIP() << "a blocking socket waits for its peer";
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(this->pair_.left->send(make_envelope("a", i, std::string(100'000, 'x'))).ok());
  }
  this->pair_.right->start(this->right_.handlers());
  std::vector<rpc::Envelope> received = this->right_.take(100);
  EXPECT_EQ(received.size(), 100u);
}

TYPED_TEST_P(ChannelConformance, HandlersMaySendAndClose) {
  auto& [left, right] = this->pair_;
  // A ball goes back and forth; whoever gets the last one closes.
  const auto bounce = [](rpc::Channel& channel) {
    return [&channel](const rpc::Envelope& envelope) {
      const int64_t number = number_in(envelope);
      if (number == 100) return channel.close();
      EXPECT_TRUE(channel.send(make_envelope("ball", number + 1)).ok());
    };
  };
  right->start({.on_message = bounce(*right), .on_close = this->right_.handlers().on_close});
  left->start({.on_message = bounce(*left), .on_close = this->left_.handlers().on_close});
  ASSERT_TRUE(left->send(make_envelope("ball", 1)).ok());
  // 100 is even, so the left end gets it and closes.
  ASSERT_TRUE(this->right_.wait_closed().has_value());
  left.reset();
  right.reset();
  EXPECT_EQ(this->left_.closes(), 0);
}

TYPED_TEST_P(ChannelConformance, DestructionWhileTrafficRuns) {
  for (int round = 0; round < 20; ++round) {
    ChannelPair pair = this->factory_.make();
    std::atomic<bool> alive = true;
    std::atomic<int> seen = 0;
    const auto count = [&](const rpc::Envelope&) {
      EXPECT_TRUE(alive) << "a handler ran after its channel was destroyed";
      ++seen;
      seen.notify_all();
    };
    pair.right->start({.on_message = count, .on_close = [&](const arrow::Status&) { EXPECT_TRUE(alive); }});
    pair.left->start({.on_message = [](const rpc::Envelope&) {}, .on_close = [](const arrow::Status&) {}});
    std::thread sender([&] {
      // Ends with an error as soon as the peer is known to be gone.
      while (pair.left->send(make_envelope("a", 0, std::string(1000, 'x'))).ok()) {
      }
    });
    seen.wait(0);
    pair.right.reset();
    alive = false;
    sender.join();
  }
}

TYPED_TEST_P(ChannelConformance, DescriptorsArriveWithTheirMessage) {
  auto& [left, right] = this->pair_;
  right->start(this->right_.handlers());
  ASSERT_EQ(left->carries_descriptors(), TypeParam::kCapabilities.carries_descriptors);
  if (!TypeParam::kCapabilities.carries_descriptors) {
    rpc::Envelope envelope = make_envelope("memory");
    envelope.descriptors.emplace_back(::dup(0));
    EXPECT_TRUE(left->send(std::move(envelope)).IsInvalid());
    ASSERT_TRUE(left->send(make_envelope("without")).ok());
    EXPECT_EQ(this->right_.take(1).at(0).sequence, 1) << "a refused message takes no place in the stream";
    return;
  }
  constexpr size_t kMessages = 20;
  for (size_t i = 0; i < kMessages; ++i) {
    rpc::Envelope envelope = make_envelope("memory", static_cast<int64_t>(i), std::string(i * 1000, 'x'));
    // Messages with none, one and two descriptors alternate, so that one too many or too few would shift all others.
    for (size_t k = 0; k < i % 3; ++k) {
      auto memory = SharedMemory::create("conformance", 64).ValueOrDie();
      memory.bytes()[0] = static_cast<std::byte>(i * 3 + k);
      envelope.descriptors.push_back(memory.descriptor().duplicate().ValueOrDie());
    }
    ASSERT_TRUE(left->send(std::move(envelope)).ok());
  }
  std::vector<rpc::Envelope> received;
  while (received.size() < kMessages) {
    auto more = this->right_.take(1);
    ASSERT_FALSE(more.empty());
    std::move(more.begin(), more.end(), std::back_inserter(received));
  }
  for (size_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(received[i].descriptors.size(), i % 3);
    for (size_t k = 0; k < i % 3; ++k) {
      const auto memory = SharedMemory::open(std::move(received[i].descriptors[k]), 64).ValueOrDie();
      EXPECT_EQ(memory.bytes()[0], static_cast<std::byte>(i * 3 + k));
    }
  }
}

TYPED_TEST_P(ChannelConformance, RefusesWhatIsTooLargeAndGoesOn) {
  auto& [left, right] = this->pair_;
  right->start(this->right_.handlers());
  rpc::Envelope head = make_envelope("large");
  head.body = {{"text", std::string(rpc::kMaxHeadBytes, 'x')}};
  EXPECT_TRUE(left->send(std::move(head)).IsInvalid());
  rpc::Envelope many = make_envelope("many");
  for (size_t i = 0; i <= rpc::kMaxDescriptors; ++i) many.descriptors.emplace_back(::dup(0));
  EXPECT_TRUE(left->send(std::move(many)).IsInvalid());
  ASSERT_TRUE(left->send(make_envelope("small")).ok());
  const auto received = this->right_.take(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].sequence, 1) << "a refused message takes no place in the stream";
}

REGISTER_TYPED_TEST_SUITE_P(ChannelConformance, CarriesEveryFieldOfAnEnvelope,
                            KeepsOrderInBothDirectionsAndWhatCameBeforeStart, ManyThreadsSendAndEachKeepsItsOrder,
                            CarriesLargeBytes, CloseDeliversWhatIsQueuedThenTellsThePeerOnce, SendAfterCloseIsAnError,
                            APeerThatIsDestroyedIsToldOnce, SendNeverBlocksOnAPeerThatDoesNotRead,
                            HandlersMaySendAndClose, DestructionWhileTrafficRuns, DescriptorsArriveWithTheirMessage,
                            RefusesWhatIsTooLargeAndGoesOn);

}  // namespace paceline::testing
