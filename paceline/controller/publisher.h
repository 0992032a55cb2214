// Publisher: publishes and deletes checkpoints on a thread of its own, one after another in the order asked for, so
// that the controller never waits for a disk. Results come back through the inbox.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "paceline/checkpoint/store.h"
#include "paceline/controller/inbox.h"

namespace paceline::controller {

struct PublishJob {
  std::vector<checkpoint::StagedPart> parts;
  /// Report, attempt, world size, time and metrics.
  checkpoint::Manifest about;
};

struct RemoveJob {
  int64_t report = 0;
};

class Publisher {
 public:
  /// `inbox` must outlive the publisher.
  Publisher(checkpoint::Store store, Inbox& inbox);
  /// Finishes the job at hand; drops publications that wait, does deletions that wait.
  ~Publisher();

  void add(std::variant<PublishJob, RemoveJob> job);

 private:
  void work();
  void execute(PublishJob& job);
  void execute(RemoveJob& job);

  checkpoint::Store store_;
  Inbox& inbox_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::variant<PublishJob, RemoveJob>> jobs_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace paceline::controller
