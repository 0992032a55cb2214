// Learning-rate schedules: the factor of each step as a pure function, and the object that applies it to an optimizer.
//
// The values are those of PyTorch's schedulers in Python, with step numbers from 0. Schedules are values that can be
// copied and combined; LRScheduler is not thread-safe. Numbers that make no valid schedule throw ConfigError, which
// names schedule, value and what is allowed.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paceline/state/held.h"
#include "paceline/state/stateful.h"
#include "paceline/state/step.h"

namespace paceline::optim {

/// The factor by which the optimizer's own learning rate is multiplied at step ≥ 0.
using Schedule = std::function<double(int64_t step)>;

/// From `start_factor` to `end_factor` in `steps` ≥ 1 steps, then constant (LinearLR).
Schedule linear(int64_t steps, double start_factor, double end_factor);

/// Half a cosine from 1 to `end_factor` in `steps` ≥ 1 steps (CosineAnnealingLR). After them it rises again, as
/// PyTorch's does.
Schedule cosine(int64_t steps, double end_factor = 0);

/// Multiplied by `gamma` after each `step_size` ≥ 1 steps (StepLR).
Schedule step_decay(int64_t step_size, double gamma = 0.1);

/// The shape of a one_cycle() schedule.
struct OneCycleOptions {
  int64_t total_steps = 0;        ///< at least 1; the learning rate stays at its last value beyond
  double pct_start = 0.3;         ///< part of the steps in which the learning rate rises; 0 to 1
  double div_factor = 25;         ///< it begins at 1 / div_factor; more than 0
  double final_div_factor = 1e4;  ///< and ends at 1 / (div_factor · final_div_factor); more than 0
  bool linear_annealing = false;  ///< lines instead of cosines
  bool three_phase = false;       ///< falls back to the beginning first, then to the end
};
/// Rises to the optimizer's own learning rate, which is the maximum, and falls again (OneCycleLR). Does not cycle
/// momentum.
Schedule one_cycle(OneCycleOptions options);

/// Uses schedules[i] from step milestones[i - 1] on; each counts its own steps from 0 (SequentialLR). There is one
/// milestone fewer than schedules, in ascending order.
///
///     sequence({linear(100, 0.1, 1), step_decay(1000)}, {100})
Schedule sequence(std::vector<Schedule> schedules, std::vector<int64_t> milestones);

/// Rises linearly from `start_factor` to 1 in `steps` ≥ 1 steps, then follows `then` from its beginning.
///
///     warm_up(500, cosine(9500))
Schedule warm_up(int64_t steps, Schedule then, double start_factor = 0.01);

/// Sets the learning rate of each of an optimizer's groups to base · schedule(step), where base is the group's learning
/// rate at construction.
///
///     paceline::optim::LRScheduler scheduler(optimizer, paceline::optim::cosine(1000));
///     for (…) { …; optimizer.step(); scheduler.step(); }
class LRScheduler final : public Stateful {
 public:
  /// Sets the learning rate of step 0 at once. The optimizer must outlive the scheduler. `ledger` is the one that the
  /// loaders keep, paceline::step_ledger(): with it, void steps (state/step.h) do not count; without it, every step()
  /// counts.
  LRScheduler(torch::optim::Optimizer& optimizer, Schedule schedule, std::shared_ptr<StepLedger> ledger = nullptr);
  /// The same for a pointer to an optimizer, smart or not.
  template <PointerTo<torch::optim::Optimizer> Pointer>
  LRScheduler(const Pointer& optimizer, Schedule schedule, std::shared_ptr<StepLedger> ledger = nullptr)
      : LRScheduler(held(optimizer, "an optimizer"), std::move(schedule), std::move(ledger)) {}

  /// Call it after optimizer.step(): sets the next learning rate.
  void step();
  /// Current learning rate of each group.
  std::vector<double> get_last_lr() const;

  std::string kind() const override { return "scheduler"; }
  Placement placement() const override { return Placement::replicated; }
  StateDict state_dict() const override;
  /// Sets the learning rates of the saved step at once; the schedule stays this object's. Throws ConfigError if the
  /// saved optimizer had another number of groups.
  void load_state_dict(const StateDict& state) override;

 private:
  void apply();

  torch::optim::Optimizer* optimizer_;
  Schedule schedule_;
  std::shared_ptr<StepLedger> ledger_;
  std::vector<double> base_lrs_;
  int64_t step_ = 0;
};

}  // namespace paceline::optim
