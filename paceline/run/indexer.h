// RunIndexer: keeps the run store up to date with a live run, on a thread of its own.
//
// It follows the run folder (reader.h), so nothing is handed over and nothing waits: whoever writes the journal or the
// history only says that there is something new. The store is written at once when a run has something new, then at
// most once a second. A store that cannot be used costs one warning; a damaged one is left alone from then on, others
// are tried again with the next news. Training never depends on it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "paceline/core/posix/thread.h"

namespace paceline::run {

class RunIndexer {
 public:
  using Warn = std::function<void(const std::string& text)>;

  /// Follows `run_folder` into the run store `store_path`; "" for none: then it does nothing. `warn` is called on the
  /// indexer's thread, and never again once finish() has returned.
  RunIndexer(const std::string& run_folder, const std::string& store_path, Warn warn);
  RunIndexer(const RunIndexer&) = delete;
  RunIndexer& operator=(const RunIndexer&) = delete;
  /// As finish() with its default.
  ~RunIndexer();

  /// There is something new in the run folder. Any thread; never waits.
  void notice();
  /// Writes what is left. When that takes longer than `patience` the thread is left behind.
  void finish(std::chrono::milliseconds patience = std::chrono::seconds(2));

 private:
  // What the thread works with; it may outlive the indexer.
  struct Desk {
    void work(const std::string& run_folder, const std::string& store_path);
    bool wait_for_news(std::chrono::steady_clock::time_point not_before);
    void say(const std::string& text);

    std::mutex mutex;
    std::condition_variable changed;
    Warn warn;           // null when nobody listens any more
    bool begun = false;  // the run folder holds a run by now
    bool news = false;
    bool ending = false;
  };

  std::shared_ptr<Desk> desk_;  // null: no store
  BackgroundThread thread_;
};

}  // namespace paceline::run
