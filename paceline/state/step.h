// StepLedger: which step the train loop is in, and whether the step counts.
//
// A step can be voided: its gradients become undefined, so that optimizer.step() does nothing (true of all torch::optim
// optimizers and Paceline's), and the loader yields the same batch again. Data parallelism voids a step; loaders ask at
// the next batch. One ledger a session. Thread-safe (backward runs on autograd's threads).
#pragma once

#include <atomic>
#include <cstdint>

namespace paceline {

class StepLedger {
 public:
  /// The loader hands out a batch: a step begins.
  void begin() { voided_ = false; }
  /// Somebody voids the step that runs.
  void void_step() { voided_ = true; }
  bool is_void() const { return voided_; }
  /// The loader has moved past an applied step.
  void applied() { ++applied_; }
  /// Steps applied since the session began.
  int64_t count() const { return applied_; }

 private:
  std::atomic<bool> voided_{false};
  std::atomic<int64_t> applied_{0};
};

}  // namespace paceline
