// TrainingRun: what a run is made of, whatever language its train loop is written in. Not for users: TorchTrainer makes
// one for C++, the Python package for Python.
//
// Threading: as TorchTrainer (trainer.h).
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "paceline/controller/run_request.h"
#include "paceline/core/config/run_config.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/core/config/validation_config.h"
#include "paceline/core/dictionary.h"
#include "paceline/rpc/messages.h"
#include "paceline/track/terminal.h"
#include "paceline/train/result.h"
#include "paceline/train/torch_config.h"

namespace paceline::train {

/// Evaluates a published checkpoint; what it returns joins the checkpoint's metrics.
using Validation = std::function<Metrics(const Checkpoint&, const Config&)>;

struct TrainingRun {
  /// The train loop, called in this process with num_workers = 0.
  std::function<Json(const Config&)> loop;
  /// What another language says of an exception of its own that the loop has thrown here; nothing: C++ describes it.
  std::function<std::optional<rpc::Failed>(const std::exception_ptr&)> describe;
  /// As RunRequest::take_exception.
  controller::TakesException take_exception;
  /// What workers find it by: its name, and bytes that their LanguageRuntime understands, which outlive the run.
  std::string loop_name;
  std::string_view attachment;
  /// As RunRequest::has_datasets; false for the calling process, which reads for itself.
  bool has_datasets = false;
  /// What a run without a name is named after; "": this process's executable.
  std::string program;
  /// What must be the same on all nodes; empty: what a program in C++ has (language_runtime.h).
  rpc::StringMap versions;
  Config train_loop_config;
  ScalingConfig scaling_config;
  RunConfig run_config;
  TorchConfig torch_config;
  /// Called in this process with num_workers = 0, by its name elsewhere; "" for a run without validations.
  Validation validation;
  std::string validation_name;
  /// As RunRequest's.
  track::TextSink standard_output, standard_error;
  controller::TakesPage take_page;
  ValidationTaskConfig validation_task;
  int64_t max_validations = 1;
  std::optional<Checkpoint> resume_from_checkpoint;
};

/// Puts what `paceline run` says in place of the run's own settings and checks them: ConfigError.
void prepare(TrainingRun& run);
/// The backend of the ranks' collectives, chosen or by default; "" where TorchConfig.backend has none for their device.
std::string backend_of(const TrainingRun& run);
/// Takes the run's place, for a driver that starts from the checkpoint at `start_from` ("" for none). UsageError when
/// another driver has it; ConfigError or StorageError naming RunConfig.storage_path.
controller::TakenRun take_run(const TrainingRun& run, const storage::Location& start_from);
/// Runs to the end, as TorchTrainer::fit(). `run` is prepared.
Result fit(const TrainingRun& run);

}  // namespace paceline::train
