// A fake controller: the other end of an agent's channel, which sends commands and keeps every message in the order of
// arrival. For tests.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "paceline/agent/process_fixture.h"
#include "paceline/rpc/channel.h"
#include "paceline/rpc/messages.h"

namespace paceline::agent {

class FakeController {
 public:
  explicit FakeController(std::unique_ptr<rpc::Channel> channel) : channel_(std::move(channel)) {
    channel_->start({.on_message =
                         [this](rpc::Envelope message) {
                           const std::lock_guard lock(mutex_);
                           messages_.push_back(std::move(message));
                           arrived_.notify_all();
                         },
                     .on_close = [](const arrow::Status&) {}});
  }

  /// Starts agent_test_process as `worker` with these arguments.
  void start(int64_t worker, rpc::Strings arguments, rpc::StartProcess settings = {}) {
    arguments.insert(arguments.begin(), program_beside_test("agent_test_process"));
    settings.arguments = std::move(arguments);
    send(worker, settings);
  }
  template <class Message>
  void send(int64_t worker, const Message& message) {
    EXPECT_TRUE(channel_->send(rpc::pack(message, {.worker = WorkerId{worker}})).ok());
  }
  void send(rpc::Envelope envelope) { EXPECT_TRUE(channel_->send(std::move(envelope)).ok()); }
  /// Closes the channel, as a controller that goes away.
  void close() { channel_->close(); }

  /// Waits for the first `Message` of `worker`.
  template <class Message>
  Message wait_for(int64_t worker) {
    return rpc::unpack<Message>(wait(worker, Message::kType)).ValueOrDie();
  }
  /// Waits for so many of them, and gives all that there are.
  template <class Message>
  std::vector<Message> wait_for_number(int64_t worker, size_t number) {
    std::vector<Message> found;
    wait_until([&] {
      found.clear();
      for (const rpc::Envelope& message : messages_) {
        if (message.type != Message::kType || message.identity.worker.value != worker) continue;
        found.push_back(rpc::unpack<Message>(message).ValueOrDie());
      }
      return found.size() >= number;
    });
    return found;
  }
  /// The `number`th of that type, from 1.
  const rpc::Envelope& wait(int64_t worker, const std::string& type, size_t number = 1) {
    const rpc::Envelope* found = nullptr;
    wait_until([&] {
      size_t count = 0;
      for (const rpc::Envelope& message : messages_) {
        if (message.type != type || message.identity.worker.value != worker) continue;
        if (++count == number) return found = &message, true;
      }
      return false;
    });
    return *found;
  }
  /// Waits until `worker` has written `line` to its standard output; gives the lines before.
  std::vector<std::string> wait_for_line(int64_t worker, const std::string& line) {
    std::vector<std::string> before;
    wait_until([&] {
      before = lines_now(worker, "stdout");
      const auto found = std::find(before.begin(), before.end(), line);
      if (found == before.end()) return false;
      before.erase(found, before.end());
      return true;
    });
    return before;
  }

  std::vector<std::string> lines(int64_t worker, const std::string& stream = "stdout") {
    const std::lock_guard lock(mutex_);
    return lines_now(worker, stream);
  }
  /// Types of the messages of `worker` so far.
  std::vector<std::string> types(int64_t worker) {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> result;
    for (const rpc::Envelope& message : messages_) {
      if (message.identity.worker.value == worker) result.push_back(message.type);
    }
    return result;
  }

 private:
  std::vector<std::string> lines_now(int64_t worker, const std::string& stream) const {
    std::vector<std::string> lines;
    for (const rpc::Envelope& message : messages_) {
      if (message.type != rpc::Output::kType || message.identity.worker.value != worker) continue;
      const auto output = rpc::unpack<rpc::Output>(message).ValueOrDie();
      if (output.stream == stream) lines.insert(lines.end(), output.lines.begin(), output.lines.end());
    }
    return lines;
  }

  void wait_until(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, kDeadline, condition)) {
      std::string types;
      for (const rpc::Envelope& message : messages_) types += message.type + " " + message.body.dump() + "\n";
      throw std::runtime_error("a message did not come; there were:\n" + types);
    }
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<rpc::Envelope> messages_;  // references stay valid
  std::unique_ptr<rpc::Channel> channel_;
};

}  // namespace paceline::agent
