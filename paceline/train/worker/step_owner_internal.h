// Whose steps are the train loop's: a loader's batches, or those of its optimizers.
//
// A batch of a prepared loader or of a dataset is a step where the loop trains with it. A loader that it validates with
// is not meant, nor what an optimizer does before training: a scheduler's warm-up, or the step that torch takes to make
// an optimizer's state. Of a loop without loaders only its optimizers show steps. Pure; one thread at a time.
#pragma once

#include <cstdint>
#include <utility>

namespace paceline::train {

class StepOwner {
 public:
  /// Whether it is one of the loop's steps.
  bool takes_optimizer_step() {
    ++steps_since_batch_;
    if (!has_trained_batches_) ++steps_before_training_;
    if (owner_ == Owner::loaders && steps_since_batch_ < (has_trained_batches_ ? kMany : kSome)) return false;
    owner_ = Owner::optimizers;
    return true;
  }

  /// Whether it is one of the loop's steps. `has_gradients`: the thread that has got the batch records them.
  bool takes_batch(bool has_gradients) {
    const int64_t steps = std::exchange(steps_since_batch_, 0);
    if (steps > 0) alternations_ = steps <= kFew ? alternations_ + 1 : 0;
    const bool is_first_trained = has_gradients && !std::exchange(has_trained_batches_, true);
    if (owner_ == Owner::optimizers) {
      const bool were_before_training = is_first_trained && steps_before_training_ <= kFew;
      if (!has_gradients || !(were_before_training || alternations_ >= kMany)) return false;
    }
    owner_ = Owner::loaders;
    return true;
  }

  /// Whether the steps of the training so far are those of optimizers.
  bool are_optimizers_training() const { return owner_ == Owner::optimizers && has_trained_batches_; }

 private:
  enum class Owner { nobody, loaders, optimizers };
  static constexpr int64_t kSome = 3;    // steps with which optimizers take over from a loader without gradients
  static constexpr int64_t kFew = 10;    // steps at most that go with a batch, or come before all training
  static constexpr int64_t kMany = 100;  // steps without a batch, or batches with few, that are no accident

  Owner owner_ = Owner::nobody;
  bool has_trained_batches_ = false;  // batches with gradients
  int64_t steps_before_training_ = 0;
  int64_t steps_since_batch_ = 0;
  int64_t alternations_ = 0;  // batches in a row, of those with steps, with few
};

}  // namespace paceline::train
