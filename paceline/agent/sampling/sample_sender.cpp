#include "paceline/agent/sampling/sample_sender.h"

#include <unistd.h>

#include <boost/asio/post.hpp>
#include <utility>

#include "paceline/agent/sampling/nvml.h"
#include "paceline/rpc/sample_messages.h"

namespace paceline::agent {

// What waits to be sent; the loop may have a sample for it when the sender is gone.
struct SampleSender::Waiting {
  const Host host;
  std::deque<std::string> lines = {};
  int64_t sent = 0;  // the number of the last message
  bool is_taken = true;

  // A controller that has others to hear, or cannot be reached, has not taken the last ones: these wait here.
  void add(std::string line) {
    lines.push_back(std::move(line));
    if (lines.size() > rpc::kMostSamplesWaiting) lines.pop_front();
    if (!is_taken || !host.is_connected()) return;
    rpc::Envelope message = rpc::pack(rpc::NodeSampled{});
    message.request = ++sent;
    for (const std::string& one : std::exchange(lines, {})) message.bytes += one;
    is_taken = false;
    host.send(std::move(message));
  }
};

SampleSender::SampleSender(boost::asio::io_context& loop, std::chrono::milliseconds interval, const std::string& role,
                           Host host)
    : waiting_(new Waiting{.host = std::move(host)}),
      sampling_(
          interval, [] { return open_nvml(load_nvml()); },
          [&loop, waiting = std::weak_ptr(waiting_)](std::string line) {
            boost::asio::post(loop, [waiting, line = std::move(line)]() mutable {
              if (const auto there = waiting.lock()) there->add(std::move(line));
            });
          }) {
  sampling_.watch({.worker = 0, .role = role, .pid = ::getpid(), .with_children = false});
}

void SampleSender::note_taken(int64_t request) {
  waiting_->is_taken = waiting_->is_taken || request == waiting_->sent;
}

}  // namespace paceline::agent
