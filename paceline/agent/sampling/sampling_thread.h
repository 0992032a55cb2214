// SamplingThread: takes a sample of its node each second, on a thread of its own: a disk or a GPU that hangs holds up
// no one but the samples.
//
// Threading: watch() and forget() from any thread; `taken` is called on the thread. Destruction ends it; a thread that
// hangs is left behind, and calls `taken` no more.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "paceline/agent/sampling/node_sampler.h"
#include "paceline/core/posix/thread.h"

namespace paceline::agent {

class SamplingThread {
 public:
  /// Gets a sample as rpc::NodeSampled has it: a line of JSON, with its end. What is absent is left out.
  using Taken = std::function<void(std::string line)>;
  using OpenGpus = std::function<std::unique_ptr<Gpus>()>;

  /// `open_gpus` is called on the thread.
  SamplingThread(std::chrono::milliseconds interval, OpenGpus open_gpus, Taken taken);
  SamplingThread(const SamplingThread&) = delete;
  SamplingThread& operator=(const SamplingThread&) = delete;
  ~SamplingThread();

  /// As NodeSampler's.
  void watch(SampledProcess process);
  void watch_progress(int64_t worker, std::shared_ptr<const ProgressReader> progress);
  void forget(int64_t worker);

 private:
  struct Desk;
  std::shared_ptr<Desk> desk_;  // outlives this where the thread hangs
  BackgroundThread thread_;
};

/// The line for a sample.
std::string sample_line(const NodeSample& sample);

}  // namespace paceline::agent
