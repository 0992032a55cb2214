// SampleSender: takes samples of an agent's node and processes (sampling_thread.h), and sends them to the controller:
// the next once those before were taken, so that they hold up nothing (rpc/sample_messages.h).
//
// Threading: everything on the thread of the loop, construction and destruction included.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "paceline/agent/sampling/sampling_thread.h"
#include "paceline/rpc/envelope.h"

namespace paceline::agent {

class SampleSender {
 public:
  struct Host {
    /// Whether the controller can be reached now.
    std::function<bool()> is_connected;
    std::function<void(rpc::Envelope)> send;
  };
  /// `role` is that of this process. The loop outlives it, and what it has been given by it.
  SampleSender(boost::asio::io_context& loop, std::chrono::milliseconds interval, const std::string& role, Host host);
  SampleSender(const SampleSender&) = delete;
  SampleSender& operator=(const SampleSender&) = delete;

  /// The controller's SamplesTaken.
  void note_taken(int64_t request);
  /// As SamplingThread's.
  void watch(SampledProcess process) { sampling_.watch(std::move(process)); }
  void watch_progress(int64_t worker, std::shared_ptr<const ProgressReader> progress) {
    sampling_.watch_progress(worker, std::move(progress));
  }
  void forget(int64_t worker) { sampling_.forget(worker); }

 private:
  struct Waiting;
  std::shared_ptr<Waiting> waiting_;
  SamplingThread sampling_;
};

}  // namespace paceline::agent
