// StepLedger: which step the train loop is in, and whether the step counts.
//
// A step can be voided: its gradients become undefined, so that optimizer.step() does nothing (true of all torch::optim
// optimizers and Paceline's), and the loaders that have a batch in hand give the same batch again. Data parallelism
// voids a step; loaders ask at the next batch. Several loaders can feed one step: each keeps what begin() gave it for
// its batch, and the step is counted once. One ledger a session. Thread-safe (backward runs on autograd's threads).
#pragma once

#include <atomic>
#include <cstdint>

namespace paceline {

class StepLedger {
 public:
  /// Where the ledger stood when a loader handed out a batch.
  struct Mark {
    /// Steps voided so far.
    int64_t voids = 0;
    /// Steps applied so far.
    int64_t applied = 0;
  };

  /// A loader hands out a batch: a step begins, or the batch joins the step for which another loader has just given
  /// one.
  Mark begin() {
    begun_ = voids_.load();
    return {begun_, applied_};
  }
  /// Somebody voids the step that runs.
  void void_step() {
    applied_before_void_ = applied_.load();
    ++voids_;
  }
  /// Whether the step that runs is void.
  bool is_void() const { return voids_ != begun_; }
  /// Whether the step of the batch is void. A batch in hand beyond its step (of an outer loop, say) is not to be given
  /// again once a later step was applied.
  bool is_void(const Mark& batch) const { return voids_ != batch.voids && applied_ == applied_before_void_; }
  /// The loader has moved past a batch whose step was not void.
  void applied(const Mark& batch) {
    if (applied_ == batch.applied) ++applied_;  // otherwise another loader has counted the step
  }
  /// Steps applied since the session began.
  int64_t count() const { return applied_; }

 private:
  std::atomic<int64_t> voids_{0};
  std::atomic<int64_t> begun_{0};  // voids_ when the step that runs began
  std::atomic<int64_t> applied_{0};
  std::atomic<int64_t> applied_before_void_{0};  // applied_ at the last void
};

}  // namespace paceline
