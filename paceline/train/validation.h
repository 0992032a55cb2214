// Validation of checkpoints on the side: a function that evaluates a published checkpoint while training goes on.
//
// Each validation is a process of its own (the program again, as workers are), so that a crash or a leak never touches
// training; ValidationConfig says how many run at once. What the function returns is merged into the checkpoint's
// metrics; the checkpoints are then ranked again and retention is applied again. One that waits or runs is never
// deleted. A function that throws or dies leaves its checkpoint as it is, with the status validation_failed and the
// cause in logs/controller.log; its output is in logs/validation_<report>.log. The end of a run waits for its
// validations; those of a run that was stopped or has failed are done when it goes on. With num_workers = 0 the
// function is called by rank 0's report(), in its process, and has no time limit.
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

/// Gets the checkpoint and ValidationTaskConfig::config; what it returns joins the checkpoint's metrics. The functions
/// that belong to a train loop (report(), collectives, …) are not for it.
using ValidationFn = Metrics (*)(const Checkpoint& checkpoint, const Config& config);

/// Which function validates this run's checkpoints, and how many at once.
struct ValidationConfig {
  /// Registered with PACELINE_VALIDATION.
  ValidationFn fn = nullptr;
  /// What every validation gets, where its report says nothing else.
  ValidationTaskConfig task_config = {};
  /// Validations at once, at least 1; the others wait, the oldest first.
  int64_t max_in_flight = 1;

  /// ConfigError naming what is not allowed.
  void validate() const;
};

/// Makes `function` known as `name`; ConfigError when another has that name.
void register_validation(const std::string& name, ValidationFn function);
/// The name that `function` is registered under; UsageError that says how to register when there is none.
std::string validation_name(ValidationFn function);
/// The function registered as `name`; UsageError when there is none.
ValidationFn find_validation(const std::string& name);

/// Registers before main, where nothing could catch an error: it ends the program with the error's text.
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
