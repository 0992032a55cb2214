// data/: plans of datasets, what is read of them, and functions of Python as operators.
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/c/bridge.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <pybind11/stl.h>
#include <torch/extension.h>

#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/core/posix/forks.h"
#include "paceline/core/posix/thread.h"
#include "paceline/data/function/function_pool.h"
#include "paceline/data/plan/plan.h"
#include "paceline/data/reader/epochs.h"
#include "paceline/data/reader/reader.h"
#include "paceline/data/reader/statistics_text.h"
#include "paceline/train/data/dataset_shards.h"
#include "paceline/train/data/step_batches.h"
#include "paceline/train/data/tensors.h"
#include "paceline/train/prepare_data_loader.h"
#include "paceline/train/worker/language_runtime.h"
#include "python/bindings/exception.h"
#include "python/bindings/json.h"
#include "python/bindings/modules.h"
#include "python/bindings/raised_status.h"

namespace paceline::python {
namespace {

namespace py = pybind11;
using Batch = std::shared_ptr<arrow::RecordBatch>;

py::object to_pyarrow(const Batch& batch) {
  ArrowArray array;
  ArrowSchema schema;
  throw_if_error(arrow::ExportRecordBatch(*batch, &array, &schema));
  return py::module_::import("pyarrow")
      .attr("RecordBatch")
      .attr("_import_from_c")(reinterpret_cast<uintptr_t>(&array), reinterpret_cast<uintptr_t>(&schema));
}

py::object to_pyarrow(const std::shared_ptr<arrow::Schema>& columns) {
  ArrowSchema schema;
  throw_if_error(arrow::ExportSchema(*columns, &schema));
  return py::module_::import("pyarrow").attr("Schema").attr("_import_from_c")(reinterpret_cast<uintptr_t>(&schema));
}

Batch from_pyarrow(const py::handle& batch) {
  ArrowArray array;
  ArrowSchema schema;
  batch.attr("_export_to_c")(reinterpret_cast<uintptr_t>(&array), reinterpret_cast<uintptr_t>(&schema));
  return value_or_throw(arrow::ImportRecordBatch(&array, &schema));
}

// Adds a note to an exception, which may have it already: an error is given again and again.
void note(const py::object& exception, const std::string& text) {
  try {
    if (py::hasattr(exception, "__notes__") && exception.attr("__notes__").contains(text)) return;
    exception.attr("add_note")(text);
  } catch (const py::error_already_set&) {  // its class may be frozen
  }
}

// The caller holds the GIL. A function's own exception comes out as itself, with a note of the rows.
void check(const arrow::Status& status) {
  if (status.ok()) return;
  if (const RaisedStatus* raised = raised_in(status)) {
    const py::object& exception = raised->exception();
    note(exception, status.message());
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    throw py::error_already_set();
  }
  throw_if_error(status);
}

template <typename T>
T value_of(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

// What a call of Python's `name` gives. The caller holds the GIL.
template <typename Call>
arrow::Result<Batch> called(const std::string& name, const Call& call) {
  try {
    return call();
  } catch (const py::error_already_set& error) {
    return status_of(name + " raised " + utf8(error.value()), exception_of(error));
  } catch (const std::exception& error) {
    return arrow::Status::Invalid(name, ": ", error.what());
  }
}

// Where code of Python runs: here, or in processes once it is given some.
class PlaceOfCode {
 public:
  ~PlaceOfCode() {
    if (place_->pool != nullptr) place_->pool->remove(place_->number);
  }

  // From now on processes of the pool call it; `code` is the function, pickled, and `name` for errors.
  void call_in(const std::string& name, std::shared_ptr<data::FunctionPool> pool, std::string_view code) {
    const int64_t number = value_or_throw(pool->add(name, code));
    const std::lock_guard lock(place_->mutex);
    if (place_->pool != nullptr) place_->pool->remove(place_->number);
    place_->pool = std::move(pool);
    place_->number = number;
  }
  // None in a fork of the process that has them.
  std::shared_ptr<data::FunctionPool> pool() const {
    const std::lock_guard lock(place_->mutex);
    return place_->pool;
  }
  // What the pool's processes make of a block. What the code raised becomes an exception of this process.
  arrow::Result<Batch> call(data::FunctionPool& pool, const Batch& block, uint64_t key) const {
    return with_exception(pool.call(place_->number, block, key));
  }

 private:
  static arrow::Result<Batch> with_exception(arrow::Result<Batch> made) {
    const auto detail = made.status().detail();
    if (detail == nullptr || detail->type_id() != data::FunctionRaisedDetail::kType) return made;
    const auto& raised = static_cast<const data::FunctionRaisedDetail&>(*detail);
    const py::gil_scoped_acquire gil;
    try {
      py::object exception = py::module_::import("paceline.data._processes")
                                 .attr("exception_of")(py::bytes(raised.pickled), raised.traceback);
      return made.status().WithDetail(std::make_shared<RaisedStatus>(std::move(exception)));
    } catch (const py::error_already_set& error) {
      return made.status().WithMessage(made.status().message(), " (", utf8(error.value()), ")");
    }
  }

  struct Place {
    std::mutex mutex;
    std::shared_ptr<data::FunctionPool> pool;
    int64_t number = 0;  // of the function, there
  };
  const PerProcess<Place> place_;
};

// A function of Python: from a pyarrow.RecordBatch and a key to another. Until it is given processes, it is called
// here, one call at a time, as the GIL has it.
class PythonFunction : public data::Operator {
 public:
  // `arguments`: of the function and its step, as a text.
  PythonFunction(std::string name, bool keeps_rows, py::object function, std::string arguments)
      : name_(std::move(name)),
        keeps_rows_(keeps_rows),
        function_(held(std::move(function))),
        arguments_(std::move(arguments)) {}

  void call_in(std::shared_ptr<data::FunctionPool> pool, std::string_view code) {
    place_.call_in(name_, std::move(pool), code);
  }
  std::shared_ptr<data::FunctionPool> pool() const { return place_.pool(); }

  std::string name() const override { return name_; }
  bool keeps_rows() const override { return keeps_rows_; }
  // Not of the function's code, which may be mended between two attempts.
  uint64_t fingerprint() const override { return data::mix_text(data::mix_text(1, name_), arguments_); }
  const std::string& arguments() const { return arguments_; }
  const py::object& function() const { return *function_; }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const std::shared_ptr<arrow::Schema>&) const override {
    return nullptr;
  }

  // In processes: the block, the same in memory that its process has in common with this one, and what it makes, in its
  // own memory and in that.
  int64_t bytes_besides(int64_t block) const override { return pool() == nullptr ? block : 4 * block; }

  std::shared_ptr<const void> line_up() const override {
    const auto pool = this->pool();
    return pool == nullptr ? nullptr : data::FunctionPool::line_up(pool);
  }

  arrow::Result<Batch> apply(const Batch& block, uint64_t key) const override {
    if (const auto pool = this->pool()) return place_.call(*pool, block, key);
    const py::gil_scoped_acquire gil;
    return called(name_, [&] { return from_pyarrow((*function_)(to_pyarrow(block), key)); });
  }

 private:
  const std::string name_;
  const bool keeps_rows_;
  const std::shared_ptr<py::object> function_;
  const std::string arguments_;
  PlaceOfCode place_;
};

// Blocks of Python: a function from the number of a chunk and a key to a pyarrow.RecordBatch; in a process, from a
// block with that number alone.
class PythonSource : public data::Source {
 public:
  // `chunks`: rows and bytes of each. `counts_rows`: whether these numbers of rows are exact.
  PythonSource(std::string name, const std::vector<std::pair<int64_t, int64_t>>& chunks, bool counts_rows,
               py::object function)
      : name_(std::move(name)), counts_rows_(counts_rows), function_(held(std::move(function))) {
    for (const auto& [rows, bytes] : chunks) {
      chunks_.push_back({.rows = rows, .bytes = bytes, .file = static_cast<int64_t>(chunks_.size())});
    }
  }

  const std::string& name() const { return name_; }
  const py::object& function() const { return *function_; }
  const std::vector<data::ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return counts_rows_; }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override {
    if (chunks_.empty()) return arrow::schema(arrow::FieldVector());
    ARROW_ASSIGN_OR_RAISE(const Batch first, read(0, 0));
    return first->schema();
  }

  uint64_t fingerprint() const override {
    uint64_t print = data::mix_text(2, name_);
    for (const data::ChunkSize& chunk : chunks_) print = data::mix(print, static_cast<uint64_t>(chunk.rows));
    return print;
  }

  void call_in(std::shared_ptr<data::FunctionPool> pool, std::string_view code) {
    place_.call_in(name_, std::move(pool), code);
  }
  std::shared_ptr<data::FunctionPool> pool() const { return place_.pool(); }

  arrow::Result<Batch> read(int64_t chunk, uint64_t epoch) const override {
    const uint64_t key = data::mix(epoch, static_cast<uint64_t>(chunk));
    if (const auto pool = this->pool()) {
      arrow::Int64Builder number;
      ARROW_RETURN_NOT_OK(number.Append(chunk));
      ARROW_ASSIGN_OR_RAISE(auto numbers, number.Finish());
      const auto schema = arrow::schema({arrow::field("task", arrow::int64())});
      const auto turn = data::FunctionPool::line_up(pool);
      return place_.call(*pool, arrow::RecordBatch::Make(schema, 1, {std::move(numbers)}), key);
    }
    const py::gil_scoped_acquire gil;
    return called(name_, [&] { return from_pyarrow((*function_)(chunk, key)); });
  }

 private:
  const std::string name_;
  const bool counts_rows_;
  const std::shared_ptr<py::object> function_;
  PlaceOfCode place_;
  std::vector<data::ChunkSize> chunks_;
};

std::shared_ptr<data::Plan> make_plan(std::string kind, const py::dict& options,
                                      std::vector<std::shared_ptr<data::Plan>> inputs,
                                      std::optional<std::shared_ptr<PythonFunction>> function, const py::list& rows,
                                      std::optional<std::shared_ptr<PythonSource>> source) {
  auto plan = std::make_shared<data::Plan>();
  plan->kind = std::move(kind);
  plan->options = to_json(options, plan->kind);
  plan->inputs.assign(inputs.begin(), inputs.end());
  if (function) plan->function = *function;
  if (source) plan->source = *source;
  for (const py::handle batch : rows) plan->rows.push_back(from_pyarrow(batch));
  return plan;
}

py::list rows_of(const data::Plan& plan) {
  py::list rows;
  for (const Batch& batch : plan.rows) rows.append(to_pyarrow(batch));
  return rows;
}

// Rows and bytes of each chunk.
std::vector<std::pair<int64_t, int64_t>> sizes_of(const data::Source& source) {
  std::vector<std::pair<int64_t, int64_t>> sizes;
  for (const data::ChunkSize& chunk : source.chunks()) sizes.emplace_back(chunk.rows, chunk.bytes);
  return sizes;
}

py::dict tensors_of(const Batch& batch) {
  py::dict tensors;
  for (int i = 0; i < batch->num_columns(); ++i) {
    const std::string& name = batch->schema()->field(i)->name();
    auto tensor = to_tensor(batch->column(i));
    if (!tensor.ok()) {
      throw py::type_error("the column '" + name + "' cannot become a tensor: " + tensor.status().message());
    }
    tensors[py::str(name)] = py::reinterpret_steal<py::object>(THPVariable_Wrap(std::move(*tensor)));
  }
  return tensors;
}

// Batches of an epoch. An iteration that is left does not wait for functions that are at work: its stream goes on a
// thread of its own. Only the program's end waits for these, since the interpreter must outlive them. The caller holds
// the GIL.
class Batches {
 public:
  explicit Batches(std::unique_ptr<data::RankBatches> stream) : stream_(std::move(stream)) { all().insert(this); }
  ~Batches() {
    all().erase(this);
    end();
  }
  data::RankBatches& stream() {
    if (stream_ == nullptr) throw UsageError("the program ends: there are no further batches");
    return *stream_;
  }
  static void end(std::unique_ptr<data::RankBatches> stream) {
    std::erase_if(ending(), [](BackgroundThread& thread) {
      return thread.wait_until(BackgroundThread::Clock::now()) && thread.finish(std::chrono::hours(1));
    });
    ending().emplace_back([stream = std::move(stream)]() mutable { stream.reset(); });
  }
  static void end_all() {
    for (Batches* batches : std::set<Batches*>(all())) batches->end();
    const py::gil_scoped_release without_gil;
    for (BackgroundThread& thread : ending()) thread.finish(std::chrono::hours(24));
  }

 private:
  void end() {
    if (stream_ != nullptr) end(std::move(stream_));
  }
  static std::vector<BackgroundThread>& ending() {
    static const PerProcess<std::vector<BackgroundThread>> kThreads;
    return *kThreads;
  }
  static std::set<Batches*>& all() {
    static const PerProcess<std::set<Batches*>> kBatches;
    return *kBatches;
  }

  std::unique_ptr<data::RankBatches> stream_;
};

// What is begun of the next epoch ends as Batches do. The caller holds the GIL.
class PythonEpochs : public data::Epochs {
 public:
  PythonEpochs(std::shared_ptr<data::DatasetReader> reader, const data::RankShare& share)
      : Epochs(std::move(reader), share) {
    all().insert(this);
  }
  ~PythonEpochs() {
    const py::gil_scoped_acquire gil;  // the worker's session may be the last that has it
    all().erase(this);
    end_begun();
  }
  static void end_all() {
    for (PythonEpochs* epochs : all()) epochs->end_begun();
  }

 private:
  void end_begun() {
    if (auto begun = take_begun()) python::Batches::end(std::move(begun));
  }
  static std::set<PythonEpochs*>& all() {
    static const PerProcess<std::set<PythonEpochs*>> kEpochs;
    return *kEpochs;
  }
};

// The next batch, or None at the end. Without the GIL where it has to be waited for: functions of Python may be what
// makes it. Ctrl-C ends the wait.
Batch next_of(data::RankBatches& stream) {
  if (stream.is_ready()) return value_of(stream.next());
  while (true) {
    {
      const py::gil_scoped_release without_gil;
      if (stream.wait(std::chrono::milliseconds(100))) break;
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  arrow::Result<Batch> batch = nullptr;
  {
    const py::gil_scoped_release without_gil;
    batch = stream.next();
  }
  return value_of(std::move(batch));
}

// Without the GIL, which threads of what is called may wait for.
template <typename Call>
auto without_gil(Call call) {
  decltype(call()) result = arrow::Status::UnknownError("");
  {
    const py::gil_scoped_release released;
    result = call();
  }
  if constexpr (std::is_same_v<decltype(result), arrow::Status>) {
    check(result);
  } else {
    return value_of(std::move(result));
  }
}

void bind_reader(py::module_& module) {
  py::class_<data::DatasetReader, std::shared_ptr<data::DatasetReader>>(module, "DataReader")
      .def("schema",
           [](data::DatasetReader& reader) { return to_pyarrow(without_gil([&] { return reader.schema(); })); })
      .def("facts",
           [](data::DatasetReader& reader) { return to_python(Json(without_gil([&] { return reader.facts(); }))); })
      .def("stats", [](data::DatasetReader& reader) {
        return data::statistics_text(without_gil([&] { return reader.statistics(); }));
      });
}

data::EpochOptions epoch_options(std::optional<int64_t> batch_size, bool drop_last, int64_t prefetch_batches,
                                 std::optional<int64_t> local_shuffle_buffer_size,
                                 std::optional<int64_t> local_shuffle_seed, bool begins_next, int64_t threads,
                                 int64_t read_ahead_bytes) {
  const data::EpochOptions options{.batch_size = batch_size,
                                   .drop_last = drop_last,
                                   .prefetch_batches = prefetch_batches,
                                   .local_shuffle_buffer_size = local_shuffle_buffer_size,
                                   .local_shuffle_seed = local_shuffle_seed.value_or(0),
                                   .begins_next = begins_next,
                                   .threads = threads,
                                   .read_ahead_bytes = read_ahead_bytes};
  throw_if_error(options.validate());
  return options;
}

void bind_epochs(py::module_& module) {
  const data::EpochOptions usual;
  py::class_<data::EpochOptions>(module, "DataEpochOptions")
      .def(py::init(&epoch_options), py::kw_only(), py::arg("batch_size") = usual.batch_size,
           py::arg("drop_last") = usual.drop_last, py::arg("prefetch_batches") = usual.prefetch_batches,
           py::arg("local_shuffle_buffer_size") = usual.local_shuffle_buffer_size,
           py::arg("local_shuffle_seed") = py::none(), py::arg("begins_next") = usual.begins_next,
           py::arg("threads") = usual.threads, py::arg("read_ahead_bytes") = usual.read_ahead_bytes);
  py::class_<PythonEpochs, std::shared_ptr<PythonEpochs>>(module, "DataEpochs")
      .def(py::init([](std::shared_ptr<data::DatasetReader> reader, int64_t rank, int64_t world_size,
                       const std::string& equal) {
             return std::make_shared<PythonEpochs>(
                 std::move(reader),
                 data::RankShare{.rank = rank, .world_size = world_size, .equal = train::equal_of(equal)});
           }),
           py::arg("reader"), py::arg("rank"), py::arg("world_size"), py::arg("equal"))
      .def(
          "begin",
          [](PythonEpochs& epochs, const data::EpochOptions& options, bool in_train_loop) {
            if (!in_train_loop) return std::make_unique<Batches>(without_gil([&] { return epochs.begin(options); }));
            std::unique_ptr<data::RankBatches> batches;
            {
              const py::gil_scoped_release released;
              batches = train::step_batches(epochs, options, train::loader_place(), true);
            }
            return std::make_unique<Batches>(std::move(batches));
          },
          py::arg("options"), py::arg("in_train_loop") = false)
      .def_property_readonly("epoch", &PythonEpochs::epoch)
      .def("set_epoch", &PythonEpochs::set_epoch, py::arg("epoch"))
      .def(
          "skip", [](PythonEpochs& epochs, int64_t rows) { without_gil([&] { return epochs.skip(rows); }); },
          py::arg("rows"))
      .def("rows", [](PythonEpochs& epochs) { return without_gil([&] { return epochs.rows(); }); })
      .def("state", [](PythonEpochs& epochs) { return to_python(without_gil([&] { return epochs.state(); })); })
      .def(
          "load_state",
          [](PythonEpochs& epochs, const py::dict& fields) {
            const Json state = to_json(fields, "the state");
            without_gil([&] { return epochs.load_state(state); });
          },
          py::arg("state"));
}

void bind_plans(py::module_& module) {
  py::class_<PythonFunction, std::shared_ptr<PythonFunction>>(module, "DataFunction")
      .def(py::init<std::string, bool, py::object, std::string>(), py::arg("name"), py::arg("keeps_rows"),
           py::arg("function"), py::arg("arguments"))
      .def_property_readonly("arguments", &PythonFunction::arguments)
      .def_property_readonly("name", &PythonFunction::name)
      .def_property_readonly("keeps_rows", &PythonFunction::keeps_rows)
      .def_property_readonly("function", &PythonFunction::function)
      .def("call_in", &PythonFunction::call_in, py::arg("pool"), py::arg("code"))
      .def_property_readonly("pool", &PythonFunction::pool);
  py::class_<PythonSource, std::shared_ptr<PythonSource>>(module, "DataSource")
      .def(py::init<std::string, std::vector<std::pair<int64_t, int64_t>>, bool, py::object>(), py::arg("name"),
           py::arg("chunks"), py::arg("counts_rows"), py::arg("function"))
      .def_property_readonly("name", &PythonSource::name)
      .def_property_readonly("chunks", [](const PythonSource& source) { return sizes_of(source); })
      .def_property_readonly("counts_rows", &PythonSource::counts_rows)
      .def_property_readonly("function", &PythonSource::function)
      .def("call_in", &PythonSource::call_in, py::arg("pool"), py::arg("code"))
      .def_property_readonly("pool", &PythonSource::pool);
  py::class_<data::Plan, std::shared_ptr<data::Plan>>(module, "DataPlan")
      .def(py::init(&make_plan), py::arg("kind"), py::arg("options"), py::arg("inputs"),
           py::arg("function") = py::none(), py::arg("rows") = py::list(), py::arg("source") = py::none())
      .def_readonly("kind", &data::Plan::kind)
      .def_property_readonly("options", [](const data::Plan& plan) { return to_python(plan.options); })
      .def_property_readonly("inputs",
                             [](const data::Plan& plan) {
                               std::vector<std::shared_ptr<data::Plan>> inputs;
                               for (const auto& input : plan.inputs) {
                                 inputs.push_back(std::const_pointer_cast<data::Plan>(input));
                               }
                               return inputs;
                             })
      .def_property_readonly("function",
                             [](const data::Plan& plan) {
                               return std::const_pointer_cast<PythonFunction>(
                                   std::dynamic_pointer_cast<const PythonFunction>(plan.function));
                             })
      .def_property_readonly("rows", &rows_of)
      .def_property_readonly(
          "source",
          [](const data::Plan& plan) {
            return std::const_pointer_cast<PythonSource>(std::dynamic_pointer_cast<const PythonSource>(plan.source));
          })
      .def("explain", [](const data::Plan& plan) { return data::explain(plan); })
      .def("open",
           [](const data::Plan& plan) { return data::local_reader(without_gil([&] { return data::open(plan); })); });
}

}  // namespace

void bind_data(py::module_& module) {
  py::module_::import("atexit").attr("register")(py::cpp_function([] {
    PythonEpochs::end_all();
    Batches::end_all();
  }));
  py::class_<Batches>(module, "DataBatches")
      .def("next",
           [](Batches& batches) -> py::object {
             const Batch batch = next_of(batches.stream());
             return batch == nullptr ? py::object(py::none()) : to_pyarrow(batch);
           })
      .def("next_tensors", [](Batches& batches) -> py::object {
        const Batch batch = next_of(batches.stream());
        return batch == nullptr ? py::object(py::none()) : py::object(tensors_of(batch));
      });
  bind_reader(module);
  bind_epochs(module);
  bind_plans(module);
  py::class_<data::DataClient, std::shared_ptr<data::DataClient>>(module, "DataClient")
      .def("reader", &data::DataClient::reader, py::arg("name"));
  module.def(
      "data_client",
      [](py::object restored) {
        return train::data_client(
            [restore = held(std::move(restored))](const arrow::Status& status, const std::string& serialized) {
              const py::gil_scoped_acquire gil;
              try {
                py::object exception = (*restore)(py::bytes(serialized));
                return exception.is_none() ? status : status_of(status.message(), std::move(exception));
              } catch (const py::error_already_set&) {  // of the exception's own class: its text is there
                return status;
              }
            });
      },
      py::arg("restored"),
      "The readers of the trainer's datasets in a worker; None where there is no data process. `restored` makes an "
      "exception of bytes, or None.");
  module.def(
      "add_dataset_shard",
      [](const std::string& name, std::shared_ptr<PythonEpochs> share, bool resume) {
        train::add_shard(name, std::move(share), resume);
      },
      py::arg("name"), py::arg("share"), py::arg("resume"), py::call_guard<py::gil_scoped_release>());
  module.def("tensors_of", [](const py::handle& batch) { return tensors_of(from_pyarrow(batch)); });
}

}  // namespace paceline::python
