// SamplesThread: keeps what agents sample in the run folder, on a thread of its own: a slow disk costs samples, and
// holds up no one.
//
// Threading: take() and destruction from one thread. What cannot be written, or is no sample, is left out.
#pragma once

#include <arrow/status.h>

#include <functional>
#include <memory>
#include <string>

#include "paceline/core/posix/thread.h"

namespace paceline::track {

class SamplesThread {
 public:
  using Gate = std::function<arrow::Status()>;

  /// `gate` is asked on the thread before it writes, which fails as it does: for a folder that another driver may have
  /// taken; null allows all.
  SamplesThread(std::string run_folder, Gate gate);
  SamplesThread(const SamplesThread&) = delete;
  SamplesThread& operator=(const SamplesThread&) = delete;
  /// Writes what is left, for two seconds at most.
  ~SamplesThread();

  /// Samples of a node (core/node_sample.h), a line each; the last has been taken now, at `received`, in seconds since
  /// the Unix epoch: clocks of nodes may differ. Never waits; drops them where too much waits already.
  void take(const std::string& node, std::string lines, double received);

 private:
  struct Desk;
  std::shared_ptr<Desk> desk_;  // outlives this where the disk hangs
  BackgroundThread thread_;     // none before the first sample
  bool is_started_ = false;
};

}  // namespace paceline::track
