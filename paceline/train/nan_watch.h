// NanWatch: says where numbers stopped being finite: the first parameter whose gradient is NaN or infinite, or a
// metric.
//
// A hook on each parameter looks at the smallest and the largest value of its gradient on the device where it is; one
// transfer at the end of backward tells whether all were finite. Without a watch (DebugConfig.nan_watch = "off") there
// are no hooks and no cost. The gradients are this rank's own, before they are averaged: a rank reports its own numbers
// only. GradScaler's steps with infinite gradients are reported like others; it skips them by itself. Threading: one
// backward of the watched modules at a time, on any thread.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "paceline/core/dictionary.h"
#include "paceline/core/error.h"

namespace paceline {

/// A loss, gradient or metric is not finite, and DebugConfig.nan_watch is "stop".
class NonFiniteError : public Error {
 public:
  using Error::Error;
};

namespace train {

struct NanWatchOptions {
  /// Throw NonFiniteError, from backward or report(); otherwise only say so.
  bool stop = false;
  int64_t rank = 0;
  /// The step that runs; 0 where steps are not counted.
  std::function<int64_t()> step;
  /// Takes a line for the user.
  std::function<void(const std::string&)> say;
};

class NanWatch : public std::enable_shared_from_this<NanWatch> {
 public:
  explicit NanWatch(NanWatchOptions options) : options_(std::move(options)) {}

  /// Watches the gradients of the module's parameters for as long as the watch lives.
  void watch(const torch::nn::Module& module);
  /// The same for one tensor that needs a gradient.
  void watch(const std::string& name, const torch::Tensor& parameter);
  /// Looks at the numbers that a report() hands over.
  void check(const Metrics& metrics);

 private:
  // What one backward has shown so far, in the order in which the gradients came.
  struct Arrived {
    std::string name;
    torch::Tensor gradient;
    torch::Tensor extremes;
  };

  void arrive(const std::string& name, const torch::Tensor& gradient);
  void finish(const std::vector<Arrived>& arrived);
  void tell(const std::string& what);

  const NanWatchOptions options_;
  std::mutex mutex_;  // guards what follows
  // Of the backward that runs: its end callback owns it, so that one that throws leaves nothing behind.
  std::weak_ptr<std::vector<Arrived>> arrived_;
  int64_t told_ = 0;
};

}  // namespace train
}  // namespace paceline
