// Validation of checkpoints in the background: a function that evaluates a published checkpoint while training
// continues.
//
// Each validation is a separate process (the program again, as workers are), so that a crash or a leak never affects
// training; ValidationConfig says how many run at once. The values that the function returns are merged into the
// checkpoint's metrics; then the checkpoints are ranked again and retention is applied again. A checkpoint whose
// validation waits or runs is never deleted. A function that throws or dies leaves its checkpoint as it is, with the
// status validation_failed and the cause in logs/controller.log; its output is in logs/validation_<report>.log. A run
// ends only after its validations; if a run was stopped or has failed, its remaining validations run when it continues.
// With num_workers = 0 rank 0's report() calls the function in its own process, without a time limit.
//
//     paceline::Metrics validate(const paceline::Checkpoint& checkpoint, const paceline::Config& config) {
//       Net model;
//       checkpoint.load(model);
//       return {{"accuracy", accuracy_of(model, config.get<std::string>("data"))}};
//     }
//     PACELINE_VALIDATION(validate);
//     … TorchTrainer(train_loop, {.validation_config = paceline::ValidationConfig{.fn = validate}})
//     … report(metrics, Checkpoint::save(model), {.validation = paceline::ValidationTaskConfig{}});
#pragma once

#include <string>

#include "paceline/checkpoint/checkpoint.h"
#include "paceline/core/config/validation_config.h"
#include "paceline/core/dictionary.h"

namespace paceline {

/// Receives the checkpoint and ValidationTaskConfig::config; the metrics that it returns are added to the checkpoint's.
/// It must not call functions that belong to a train loop (report(), collectives, …).
using ValidationFn = Metrics (*)(const Checkpoint& checkpoint, const Config& config);

/// Which function validates this run's checkpoints, and how many at once.
struct ValidationConfig {
  /// Registered with PACELINE_VALIDATION.
  ValidationFn fn = nullptr;
  /// The settings of every validation, unless its report says otherwise.
  ValidationTaskConfig task_config = {};
  /// Validations at once, at least 1; the others wait, the oldest first.
  int64_t max_in_flight = 1;

  /// ConfigError naming what is not allowed.
  void validate() const;
};

/// Registers `function` as `name`. Throws ConfigError if another function has that name.
void register_validation(const std::string& name, ValidationFn function);
/// The name under which `function` is registered. If there is none, throws UsageError, which says how to register it.
std::string validation_name(ValidationFn function);
/// The function registered as `name`; UsageError when there is none.
ValidationFn find_validation(const std::string& name);

/// Registers a function before main, where nothing could catch an error: an error ends the program with its text.
struct ValidationRegistration {
  /// As register_validation().
  ValidationRegistration(const char* name, ValidationFn function) noexcept { register_validation(name, function); }
};

}  // namespace paceline

/// Registers a validation function, at namespace scope: `PACELINE_VALIDATION(validate);`
#define PACELINE_VALIDATION(function) PACELINE_VALIDATION_AT_(function, __COUNTER__)
#define PACELINE_VALIDATION_AT_(function, number) PACELINE_VALIDATION_NAMED_(function, number)
#define PACELINE_VALIDATION_NAMED_(function, number) \
  [[maybe_unused]] static const ::paceline::ValidationRegistration paceline_validation_##number(#function, function)
