// An agent and the ranks of its node, as the controller hears of them: no process is started.
#pragma once

#include <unistd.h>

#include <atomic>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paceline/rpc/channel.h"
#include "paceline/rpc/messages.h"

namespace paceline::benchmarks {

inline double seconds_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline clockid_t clock_of_this_thread() {
  clockid_t clock{};
  ::pthread_getcpuclockid(::pthread_self(), &clock);
  return clock;
}

/// Threading: messages come on the channel's thread; report() and finish() are one other thread's.
class SimulatedAgent {
 public:
  /// `on_rank` is called for each rank that has its place, on the channel's thread.
  SimulatedAgent(std::unique_ptr<rpc::Channel> channel, const std::string& node, int64_t cores,
                 std::function<void()> on_rank)
      : node_(node), on_rank_(std::move(on_rank)), channel_(std::move(channel)) {
    channel_->start({.on_message = [this](const rpc::Envelope& message) { receive(message); },
                     .on_close = [](const arrow::Status&) {}});
    send(rpc::NodeReady{.node = node, .host = node, .pid = ::getpid(), .cores = cores, .address = "127.0.0.1"});
  }

  int64_t ranks() const { return std::ssize(ranks_); }
  /// What its thread has computed.
  double seconds() const { return seconds_of(clock_); }

  /// One rank's, once all ranks have their places.
  void report(int64_t rank, int64_t index) {
    step_ = index;
    send(
        rpc::Report{
            .index = index,
            .metrics = {{"loss", 1.0 / static_cast<double>(rank + index)}, {"learning_rate", 0.001}, {"step", index}}},
        ranks_[static_cast<size_t>(rank)]);
  }
  /// The train loop of one has thrown: its group ends, and the next begins.
  void fail(int64_t rank) {
    send(rpc::Failed{.kind = "std::runtime_error", .text = "simulated"}, ranks_[static_cast<size_t>(rank)]);
    send(rpc::ProcessExited{.end = {.status = {.exit_code = 1}}}, std::exchange(ranks_, {})[static_cast<size_t>(rank)]);
  }
  /// The train loop of each has returned.
  void finish(int64_t reports) {
    for (const Identity& rank : ranks_) {
      send(rpc::Finished{.reports = reports}, rank);
      send(rpc::ProcessExited{}, rank);
    }
  }

 private:
  template <class Message>
  void send(const Message& message, const Identity& identity = {}, int64_t reply_to = 0) {
    rpc::Envelope envelope = rpc::pack(message, identity);
    envelope.reply_to = reply_to;
    (void)channel_->send(std::move(envelope));  // fails when the run is over
  }

  void receive(const rpc::Envelope& message) {
    clock_ = clock_of_this_thread();
    if (message.type == rpc::StartProcess::kType) {
      send(rpc::ProcessStarted{.pid = ::getpid()}, message.identity);
      send(rpc::Joined{.pid = ::getpid(), .host = node_}, message.identity);
    } else if (message.type == rpc::Assign::kType) {
      ranks_.push_back(message.identity);
      on_rank_();
    } else if (message.type == rpc::ProgressRequest::kType) {
      send(progress(), {}, message.request);
    } else if (message.type == rpc::EndProcess::kType) {
      ranks_.clear();
      send(rpc::ProcessExited{}, message.identity);
    }
  }

  rpc::ProgressReply progress() const {
    rpc::ProgressReply reply;
    for (const Identity& rank : ranks_) {
      reply.processes.push_back({.worker = rank.worker,
                                 .step = step_,
                                 .phase = Phase::training,
                                 .phase_s = 0.5,
                                 .marks = step_,
                                 .steps_timed = step_,
                                 .step_s = 1,
                                 .groups = {{.group = 1, .begun = step_, .done = step_, .collective = "all_reduce"}},
                                 .started = 1.8e9,
                                 .cpu_s = static_cast<double>(step_),
                                 .resident_bytes = int64_t{1} << 30});
    }
    return reply;
  }

  const std::string node_;
  const std::function<void()> on_rank_;
  std::vector<Identity> ranks_;  // complete when the reports begin
  std::atomic<clockid_t> clock_{};
  std::atomic<int64_t> step_ = 0;
  std::unique_ptr<rpc::Channel> channel_;  // last: it calls what is above
};

}  // namespace paceline::benchmarks
