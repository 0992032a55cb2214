// Two sessions in one process and the connections between them: whenever one breaks, the next is made, with the faults
// that a test wants for it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "paceline/testing/faulty_link.h"
#include "paceline/transport/resumable_channel.h"

namespace paceline::testing {

class JoinedSessions {
 public:
  /// `faults`: of the Nth connection, from 0.
  using FaultsOf = std::function<Faults(int)>;

  explicit JoinedSessions(FaultsOf faults, Duration lease = std::chrono::seconds(30))
      : threads_(std::make_shared<transport::SharedThreads>()),
        faults_(std::move(faults)),
        left_(transport::Session::make(threads_, {.peer = "the right end", .lease = lease})),
        right_(transport::Session::make(threads_, {.peer = "the left end", .lease = lease})),
        thread_([this] { connect(); }) {}

  ~JoinedSessions() {
    const auto over = arrow::Status::Cancelled("the test is over");
    left_->end(over);
    right_->end(over);
    thread_.join();
    threads_->stop();
  }

  std::shared_ptr<transport::Session> left() const { return left_; }
  std::shared_ptr<transport::Session> right() const { return right_; }
  int connections() const { return connections_; }

 private:
  void connect() {
    while (!left_->has_ended() && !right_->has_ended()) {
      const auto left = left_->prepare();
      const auto right = right_->prepare();
      const auto links = make_faulty_links(faults_(connections_++));
      std::thread other([&] { serve(*right_, right, links.second, left.received); });
      serve(*left_, left, links.first, right.received);
      other.join();
    }
    // As a listener answers whose end of the channel is over.
    const auto unknown = arrow::Status::IOError("the peer knows nothing of this channel");
    left_->end(unknown);
    right_->end(unknown);
  }

  static void serve(transport::Session& session, transport::Session::Resumption here,
                    const std::shared_ptr<transport::Link>& link, int64_t received) {
    (void)session.serve(here, link, received);
    link->close();
  }

  std::shared_ptr<transport::SharedThreads> threads_;
  FaultsOf faults_;
  std::shared_ptr<transport::Session> left_;
  std::shared_ptr<transport::Session> right_;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

}  // namespace paceline::testing
