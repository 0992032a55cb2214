#include "paceline/optim/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "paceline/core/error.h"

namespace paceline::optim {
namespace {

void check_steps(const char* schedule, const char* name, int64_t steps) {
  if (steps >= 1) return;
  throw ConfigError(std::string(schedule) + ": " + name + " is " + std::to_string(steps) + "; allowed: at least 1");
}

void check_one_cycle(const char* name, double value, bool allowed, const char* what) {
  if (allowed) return;
  throw ConfigError(std::string("one_cycle: ") + name + " is " + std::to_string(value) + "; allowed: " + what);
}

/// From `start` to `end` as `part` goes from 0 to 1.
double cosine_between(double start, double end, double part) {
  return end + (start - end) / 2 * (std::cos(std::numbers::pi * part) + 1);
}

}  // namespace

Schedule linear(int64_t steps, double start_factor, double end_factor) {
  check_steps("linear", "steps", steps);
  return [=](int64_t step) {
    const double part = static_cast<double>(std::min(step, steps)) / static_cast<double>(steps);
    return start_factor + (end_factor - start_factor) * part;
  };
}

Schedule cosine(int64_t steps, double end_factor) {
  check_steps("cosine", "steps", steps);
  return [=](int64_t step) {
    return cosine_between(1, end_factor, static_cast<double>(step) / static_cast<double>(steps));
  };
}

Schedule step_decay(int64_t step_size, double gamma) {
  check_steps("step_decay", "step_size", step_size);
  return [=](int64_t step) {
    const int64_t times = step / step_size;
    return std::pow(gamma, static_cast<double>(times));
  };
}

Schedule one_cycle(OneCycleOptions options) {
  check_steps("one_cycle", "total_steps", options.total_steps);
  check_one_cycle("pct_start", options.pct_start, options.pct_start >= 0 && options.pct_start <= 1, "0 to 1");
  check_one_cycle("div_factor", options.div_factor, options.div_factor > 0, "more than 0");
  check_one_cycle("final_div_factor", options.final_div_factor, options.final_div_factor > 0, "more than 0");
  const double first = 1 / options.div_factor;
  const double last = first / options.final_div_factor;
  struct Phase {
    double end_step, start, end;
  };
  const double rise = options.pct_start * static_cast<double>(options.total_steps);
  const double end = static_cast<double>(options.total_steps - 1);
  const std::vector<Phase> phases =
      options.three_phase ? std::vector<Phase>{{rise - 1, first, 1}, {2 * rise - 2, 1, first}, {end, first, last}}
                          : std::vector<Phase>{{rise - 1, first, 1}, {end, 1, last}};
  return [=](int64_t step) {
    const double now = std::min(static_cast<double>(step), end);
    double start_step = 0;
    for (const Phase& phase : phases) {
      if (now <= phase.end_step) {
        const double length = phase.end_step - start_step;
        const double part = length > 0 ? (now - start_step) / length : 1;
        return options.linear_annealing ? phase.start + (phase.end - phase.start) * part
                                        : cosine_between(phase.start, phase.end, part);
      }
      start_step = phase.end_step;
    }
    return last;
  };
}

Schedule sequence(std::vector<Schedule> schedules, std::vector<int64_t> milestones) {
  if (schedules.size() != milestones.size() + 1 || !std::ranges::is_sorted(milestones)) {
    throw ConfigError("sequence: " + std::to_string(schedules.size()) + " schedules and " +
                      std::to_string(milestones.size()) + " milestones; wanted a rising milestone between each two");
  }
  return [schedules = std::move(schedules), milestones = std::move(milestones)](int64_t step) {
    const auto passed = std::ranges::upper_bound(milestones, step) - milestones.begin();
    const int64_t start = passed == 0 ? 0 : milestones[static_cast<size_t>(passed) - 1];
    return schedules[static_cast<size_t>(passed)](step - start);
  };
}

Schedule warm_up(int64_t steps, Schedule then, double start_factor) {
  return sequence({linear(steps, start_factor, 1), std::move(then)}, {steps});
}

LRScheduler::LRScheduler(torch::optim::Optimizer& optimizer, Schedule schedule, std::shared_ptr<StepLedger> ledger)
    : optimizer_(&optimizer), schedule_(std::move(schedule)), ledger_(std::move(ledger)), base_lrs_(get_last_lr()) {
  apply();
}

void LRScheduler::step() {
  if (ledger_ && ledger_->is_void()) return;
  ++step_;
  apply();
}

std::vector<double> LRScheduler::get_last_lr() const {
  std::vector<double> rates;
  for (const auto& group : optimizer_->param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}

void LRScheduler::apply() {
  const double factor = schedule_(step_);
  auto& groups = optimizer_->param_groups();
  for (size_t i = 0; i < base_lrs_.size(); ++i) groups[i].options().set_lr(base_lrs_[i] * factor);
}

StateDict LRScheduler::state_dict() const {
  StateDict state;
  state.values = {{"step", step_}, {"base_lrs", base_lrs_}};
  return state;
}

void LRScheduler::load_state_dict(const StateDict& state) try {
  auto base_lrs = state.values.at("base_lrs").get<std::vector<double>>();
  if (base_lrs.size() != base_lrs_.size()) {
    throw ConfigError("the saved learning-rate scheduler has " + std::to_string(base_lrs.size()) +
                      " parameter groups, the optimizer has " + std::to_string(base_lrs_.size()) +
                      "; make the optimizer with the groups that it was saved with, or leave the scheduler out of what "
                      "is loaded");
  }
  step_ = state.values.at("step").get<int64_t>();
  base_lrs_ = std::move(base_lrs);
  apply();
} catch (const Json::exception& error) {
  throw ConfigError(std::string("the saved state is not that of a learning-rate scheduler: ") + error.what());
}

}  // namespace paceline::optim
