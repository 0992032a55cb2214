// Publisher: publishes and deletes checkpoints on a thread of its own, one after another in the order asked for, so
// that the controller never waits for a disk. Results come back through the inbox.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "paceline/checkpoint/store.h"
#include "paceline/controller/inbox.h"
#include "paceline/core/posix/thread.h"

namespace paceline::controller {

struct PublishJob {
  std::vector<checkpoint::StagedPart> parts;
  /// Report, the folder's name, attempt, world size, time and metrics.
  checkpoint::Manifest about;
  /// Waits until its report is durable in the history; null when it is.
  std::function<arrow::Status()> report_is_durable;
};

/// On the calling thread.
arrow::Result<checkpoint::Published> publish(checkpoint::Store& store, PublishJob job);

struct RemoveJob {
  int64_t report = 0;
  std::string name;  // of its folder
};

/// What workers that have ended staged and nobody will publish.
struct DiscardJob {
  Attempt attempt;
  std::vector<WorkerId> workers;
};

class Publisher {
 public:
  /// `inbox` must outlive the publisher.
  Publisher(checkpoint::Store store, Inbox& inbox);
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;
  /// As finish() with its default.
  ~Publisher();

  void add(std::variant<PublishJob, RemoveJob, DiscardJob> job);
  /// Finishes the job at hand, drops publications that wait and carries out deletions that wait. False when that takes
  /// longer than `patience`, because the storage hangs: the thread is left behind then, and reports nothing any more.
  bool finish(std::chrono::milliseconds patience = std::chrono::seconds(30));

 private:
  using Job = std::variant<PublishJob, RemoveJob, DiscardJob>;

  // What the thread works with; it may outlive the publisher.
  struct Desk {
    explicit Desk(checkpoint::Store its_store, Inbox& its_inbox) : store(std::move(its_store)), inbox(&its_inbox) {}
    void work();
    void execute(PublishJob& job);
    void execute(RemoveJob& job);
    void execute(DiscardJob& job);
    void push(Incoming result);

    checkpoint::Store store;
    std::mutex mutex;
    std::condition_variable changed;
    Inbox* inbox;  // null when nobody listens any more
    std::deque<Job> jobs;
    bool ending = false;
  };

  std::shared_ptr<Desk> desk_;
  BackgroundThread thread_;
};

}  // namespace paceline::controller
