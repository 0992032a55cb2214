// Gpus: what the GPUs of this machine do.
//
// Implementations: NvmlGpus (nvml.h); none, where there is no driver; a fake in tests. Threading: one thread at a time.
// Calls may hang where a GPU does: not for a thread that others wait for.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "paceline/core/node_sample.h"

namespace paceline::agent {

class Gpus {
 public:
  virtual ~Gpus() = default;
  /// All of them, in the driver's order. What a GPU does not tell, and what a part of one cannot, is absent.
  virtual std::vector<GpuSample> sample() = 0;
  /// Bytes that processes have on all GPUs together, as far as the driver knows the processes by their ids here.
  virtual std::map<pid_t, double> memory_of_processes() = 0;
  /// Why there are none; "" where there are some.
  virtual std::string problem() const = 0;
};

/// None, because of `problem`.
class NoGpus final : public Gpus {
 public:
  explicit NoGpus(std::string problem) : problem_(std::move(problem)) {}
  std::vector<GpuSample> sample() override { return {}; }
  std::map<pid_t, double> memory_of_processes() override { return {}; }
  std::string problem() const override { return problem_; }

 private:
  const std::string problem_;
};

}  // namespace paceline::agent
