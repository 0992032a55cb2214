// UploadQueue: uploads checkpoints on threads of its own while training goes on, and hands reports over at once. Not
// for users.
//
// An upload is work that ends with a stage (checkpoint/stage.h) or an exception. At most kMostInFlight are under way:
// whoever starts another waits. A report is handed over by its caller, without its files where these are on their way;
// they follow in the order of the reports, handed over by the thread that has ended the upload. `fail` is called with
// the first failure of an upload or of handing files over; after it nothing is handed over any more.
//
// Threading: start(), submit() and wait_for_room() from one thread at a time, stop() and drain() from any. Threads are
// started when they are needed. Destruction drops what has not begun and does not wait for work that is under way: that
// work must own all that it touches.
#pragma once

#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/posix/thread.h"
#include "paceline/rpc/messages.h"

namespace paceline::train {

/// Gives the stage's folder, relative to the run's, as Report::staged wants it; "" for no files.
using Upload = std::shared_future<std::string>;

/// An upload that has ended already.
Upload ended_upload(std::string staged);

class UploadQueue {
 public:
  static constexpr int64_t kMostInFlight = 2;

  using HandOver = std::function<void(rpc::Report)>;
  using HandOverFiles = std::function<void(rpc::CheckpointUploaded)>;
  using Fail = std::function<void(std::exception_ptr)>;

  UploadQueue(HandOver hand_over, HandOverFiles hand_over_files, Fail fail);
  UploadQueue(const UploadQueue&) = delete;
  UploadQueue& operator=(const UploadQueue&) = delete;
  ~UploadQueue();

  /// Waits until another upload may start, one has failed, or stop().
  void wait_for_room();
  /// Starts `work` on a thread. Call wait_for_room() before.
  Upload start(std::function<std::string()> work);
  /// Hands the report over, with its files when its upload, if it has one, has ended, and those before it; else they
  /// follow, and with `wait` it returns after that. Throws what the handing over throws, and the first failure.
  void submit(rpc::Report report, Upload upload, bool wait);
  /// Waits until all files are handed over; throws the first failure.
  void drain();
  /// Whoever waits for room waits no longer. What is under way goes on.
  void stop();

 private:
  struct Desk;

  std::shared_ptr<Desk> desk_;
  std::vector<BackgroundThread> threads_;
};

}  // namespace paceline::train
