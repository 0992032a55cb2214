// HistoryThread: appends to a run's metrics history on a thread of its own, so that a slow disk holds up no one but
// those who wait for it.
//
// Rows are kept in memory until they are written: whoever has them made looks at waiting_bytes() and makes no more
// while there are too many. What cannot be written stays, and is tried again with the next flush() or sync().
// Threading: append(), flush() and destruction from one thread; what syncing() gives from any thread, also after
// destruction; the rest from any. Fail point: "history.write".
#pragma once

#include <arrow/result.h>

#include <functional>
#include <memory>
#include <string>

#include "paceline/core/posix/thread.h"
#include "paceline/track/metrics_history.h"

namespace paceline::track {

class HistoryThread {
 public:
  using Told = std::function<void()>;
  using Gate = std::function<arrow::Status()>;

  /// Opens the history of a run that ends as `end` says. `told` is called on the thread when something has been
  /// written, or could not be; null: then flush() waits. `gate` is asked there before each writing, which fails as it
  /// does: for a file that another driver may have taken; null allows all.
  static arrow::Result<std::unique_ptr<HistoryThread>> open(const std::string& run_folder, const HistoryEnd& end,
                                                            Told told = nullptr, Gate gate = nullptr);
  HistoryThread(const HistoryThread&) = delete;
  HistoryThread& operator=(const HistoryThread&) = delete;
  /// Writes what is left, for two seconds at most; `told` is called no more.
  ~HistoryThread();

  /// Takes a row; it is written on flush() or when 64 KiB have come together. Never waits for the disk.
  void append(const HistoryRow& row);
  /// Lets what was appended be written. The status is that of the last writing that has ended.
  arrow::Status flush();
  /// Writes what was appended, and fsync; waits for it.
  arrow::Status sync() { return syncing()(); }
  /// Begins the same; gives what waits for it, a function that any thread may call.
  std::function<arrow::Status()> syncing();

  /// From here on nothing is written, also of what waits: the file is another driver's. What is under way ends.
  void leave();

  /// How the last writing that has ended went.
  arrow::Status status() const;
  /// Bytes that readers find.
  int64_t flushed_bytes() const;
  /// The same, with those that wait.
  int64_t bytes() const { return bytes_; }
  int64_t waiting_bytes() const { return bytes_ - flushed_bytes(); }

 private:
  struct Desk;
  HistoryThread(std::shared_ptr<Desk> desk, const HistoryEnd& end);
  int64_t hand_over(bool sync);

  std::shared_ptr<Desk> desk_;  // outlives this where the disk hangs
  HistoryEncoder encoder_;
  std::string buffer_;
  int64_t bytes_;
  bool is_left_ = false;
  BackgroundThread thread_;
};

}  // namespace paceline::track
