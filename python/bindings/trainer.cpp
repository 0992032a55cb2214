// train/training_run.h, train/result.h: the driver's side of a run.
#include <arrow/c/bridge.h>
#include <pybind11/native_enum.h>
#include <pybind11/stl.h>

#include "paceline/agent/guardian.h"
#include "paceline/core/config/read.h"
#include "paceline/core/error.h"
#include "paceline/train/driver.h"
#include "paceline/train/training_run.h"
#include "paceline/train/worker/language_runtime.h"
#include "python/bindings/callback.h"
#include "python/bindings/exception.h"
#include "python/bindings/json.h"
#include "python/bindings/modules.h"

namespace paceline::python {
namespace {

namespace py = pybind11;

template <class Settings>
Settings settings(const py::dict& run, const char* part, const char* name) {
  return read_config<Settings>(to_json(run[part], name), name);
}

// A Python callable that is called, and destroyed, wherever C++ wants to.
std::shared_ptr<const py::object> shared(py::object object) {
  return {new py::object(std::move(object)), [](const py::object* held) {
            const py::gil_scoped_acquire gil;
            delete held;
          }};
}

// The `write` of a Python stream, None for nothing. What it raises is shown once and loses only the text: the run goes
// on, and its logs have everything.
track::TextSink text_sink(const py::object& write) {
  if (write.is_none()) return nullptr;
  return [write = shared(write), has_failed = std::make_shared<bool>(false)](std::string_view text) {
    const py::gil_scoped_acquire gil;
    try {
      (*write)(py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(text.data(), std::ssize(text), "replace")));
    } catch (py::error_already_set& error) {
      if (!std::exchange(*has_failed, true)) error.discard_as_unraisable("writing what workers have written");
    }
  };
}

// Shows the address as a link, None for nothing. What it raises is shown, and the run goes on.
controller::TakesPage page_sink(const py::object& show) {
  if (show.is_none()) return nullptr;
  return [show = shared(show)](const std::string& url) {
    const py::gil_scoped_acquire gil;
    try {
      (*show)(url);
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("showing the address of the dashboard");
    }
  };
}

train::TrainingRun training_run(const py::dict& values) {
  train::TrainingRun run;
  run.loop_name = values["loop_name"].cast<std::string>();
  run.program = values["program_name"].cast<std::string>();
  run.attachment = values["attachment"].cast<std::string_view>();  // the dict outlives the run
  run.versions = values["program"].attr("versions")().cast<rpc::StringMap>();
  run.has_datasets = values["has_datasets"].cast<bool>();
  run.train_loop_config = Config(to_json(values["train_loop_config"], "train_loop_config"));
  run.scaling_config = settings<ScalingConfig>(values, "scaling_config", "ScalingConfig");
  run.run_config = settings<RunConfig>(values, "run_config", "RunConfig");
  run.torch_config = settings<TorchConfig>(values, "torch_config", "TorchConfig");
  for (const auto& callback : values["callbacks"]) {
    run.run_config.callbacks.push_back(make_callback(py::reinterpret_borrow<py::object>(callback)));
  }
  run.loop = [loop = shared(values["loop"])](const Config&) {
    const py::gil_scoped_acquire gil;
    return to_json((*loop)(), "the return value");
  };
  run.take_exception = [take = shared(values["take_exception"])](int64_t rank, const std::string& bytes) {
    const py::gil_scoped_acquire gil;
    (*take)(rank, py::bytes(bytes));
  };
  run.describe = [program =
                      shared(values["program"])](const std::exception_ptr& exception) -> std::optional<rpc::Failed> {
    try {
      std::rethrow_exception(exception);
    } catch (const py::error_already_set& error) {
      const py::gil_scoped_acquire gil;
      return failed_of(*program, error);
    } catch (...) {
      return std::nullopt;
    }
  };
  if (!values["validation"].is_none()) {
    run.validation_name = values["validation_name"].cast<std::string>();
    run.validation = [validation = shared(values["validation"]), program = shared(values["program"])](
                         const Checkpoint& checkpoint, const Config& config) {
      const py::gil_scoped_acquire gil;
      try {
        return Metrics(to_json((*validation)(checkpoint, to_python(config.json())), "the validation's metrics"));
      } catch (const py::error_already_set& error) {
        throw train::LanguageException(failed_of(*program, error), std::current_exception());
      }
    };
    run.validation_task = settings<ValidationTaskConfig>(values, "validation_task", "ValidationTaskConfig");
    run.max_validations = values["max_validations"].cast<int64_t>();
  }
  run.standard_output = text_sink(values["standard_output"]);
  run.standard_error = text_sink(values["standard_error"]);
  run.take_page = page_sink(values["show_page"]);
  run.resume_from_checkpoint = values["resume_from_checkpoint"].cast<std::optional<Checkpoint>>();
  return run;
}

// pyarrow takes it over: by Arrow's C stream interface, which every version of both understands.
py::capsule history_stream(const Result& result) {
  auto stream = std::make_unique<ArrowArrayStream>();
  {
    const py::gil_scoped_release without_gil;
    const auto table = result.metrics_history();
    throw_if_error(arrow::ExportRecordBatchReader(std::make_shared<arrow::TableBatchReader>(table), stream.get()));
  }
  return py::capsule(stream.release(), "arrow_array_stream", [](void* held) {
    auto* const owned = static_cast<ArrowArrayStream*>(held);
    if (owned->release != nullptr) owned->release(owned);
    delete owned;
  });
}

py::list reported_metrics(const Result& result) {
  const auto reports = [&] {
    const py::gil_scoped_release without_gil;
    return result.reported_metrics();
  }();
  py::list list;
  for (const Metrics& metrics : reports) list.append(to_python(metrics.json()));
  return list;
}

py::list best_checkpoints(const Result& result) {
  py::list best;
  for (const auto& [checkpoint, metrics] : result.best_checkpoints) {
    best.append(py::make_tuple(checkpoint, to_python(metrics.json())));
  }
  return best;
}

void bind_endings(py::module_& module) {
  py::native_enum<FinalState>(module, "FinalState", "enum.Enum")
      .value("FINISHED", FinalState::finished)
      .value("ERRORED", FinalState::errored)
      .value("ABORTED", FinalState::aborted)
      .finalize();
  py::native_enum<StopCause>(module, "StopCause", "enum.Enum")
      .value("UNKNOWN", StopCause::unknown)
      .value("INTERRUPT", StopCause::interrupt)
      .value("TERMINATED", StopCause::terminated)
      .value("COMMAND_LINE", StopCause::command_line)
      .value("CALLBACK", StopCause::callback)
      .value("TIME_LIMIT", StopCause::time_limit)
      .finalize();
  py::native_enum<FailureKind>(module, "FailureKind", "enum.Enum")
      .value("EXCEPTION", FailureKind::exception)
      .value("EXIT", FailureKind::exit)
      .value("SILENCE", FailureKind::silence)
      .value("HANG", FailureKind::hang)
      .value("START", FailureKind::start)
      .value("TIMEOUT", FailureKind::timeout)
      .value("REPORT", FailureKind::report)
      .value("PUBLISH", FailureKind::publish)
      .value("DATA", FailureKind::data)
      .value("PREEMPTION", FailureKind::preemption)
      .value("NODE", FailureKind::node)
      .value("RESOURCES", FailureKind::resources)
      .value("CALLBACK", FailureKind::callback)
      .value("STORAGE", FailureKind::storage)
      .finalize();
}

}  // namespace

void bind_trainer(py::module_& module) {
  bind_endings(module);
  py::class_<Result>(module, "Result")
      .def_static("from_path", &Result::from_path, py::arg("path"), py::call_guard<py::gil_scoped_release>())
      .def_readonly("state", &Result::state)
      .def_property_readonly("final_state", [](const Result& result) { return final_state_of(result.state); })
      .def_property_readonly("metrics", [](const Result& result) { return to_python(result.metrics.json()); })
      .def_readonly("checkpoint", &Result::checkpoint)
      .def_property_readonly("best_checkpoints", &best_checkpoints)
      .def_readonly("path", &Result::path)
      .def_property_readonly("path_with_credentials",
                             [](const Result& result) { return result.location.with_credentials(); })
      .def_readonly("stop_reason", &Result::stop_reason)
      .def_readonly("stop_cause", &Result::stop_cause)
      .def_readonly("failure_kind", &Result::failure_kind)
      .def_property_readonly("exit_code", &Result::exit_code)
      .def_readonly("error", &Result::error)
      .def_readonly("worker_errors", &Result::worker_errors)
      .def_property_readonly("return_value", [](const Result& result) { return to_python(result.return_value); })
      .def("metrics_history", &history_stream)
      .def("reported_metrics", &reported_metrics);
  module.def(
      "index_of_best",
      [](const py::list& kept, const std::string& metric, const std::string& mode, const std::string& path) {
        std::vector<Metrics> metrics;
        for (const auto& one : kept) metrics.emplace_back(to_json(one, "metrics"));
        return train::index_of_best(metrics, metric, mode, path);
      },
      py::arg("kept"), py::arg("metric"), py::arg("mode"), py::arg("path"),
      "Which of the metrics of kept checkpoints has the best; `path`: the run's, for errors.");
  module.def("is_driver", &train::is_driver);
  module.def(
      "become_driver",
      [](std::vector<std::string> program, std::vector<std::string> fork_server, const std::string& guardian,
         std::string paceline) {
        train::become_driver({.program = std::move(program),
                              .fork_server = std::move(fork_server),
                              .guardian = value_or_throw(agent::Guardian::start(guardian)),
                              .paceline = std::move(paceline)});
      },
      py::arg("program"), py::arg("fork_server"), py::arg("guardian"), py::arg("paceline"),
      "Command lines of a worker and of the process that workers are forked from; the programs paceline_guardian and "
      "paceline.");
  module.def(
      "fit",
      [](const py::dict& values) {
        train::TrainingRun run = training_run(values);
        const auto outcome = [&]() -> std::pair<Result, bool> {
          const py::gil_scoped_release without_gil;
          try {
            train::prepare(run);
            return {train::fit(run), false};
          } catch (const TrainingFailedError& error) {
            Result failed = error.result();
            failed.error = error.what();
            return {std::move(failed), true};
          }
        }();
        return py::make_tuple(outcome.first, outcome.second, train::backend_of(run));
      },
      py::arg("run"), "The result, whether the run has failed, and the ranks' backend.");
  module.def(
      "check_run",
      [](const py::dict& values) {
        train::TrainingRun run = training_run(values);
        train::prepare(run);
      },
      py::arg("run"), "ConfigError for what fit() would refuse.");
}

}  // namespace paceline::python
