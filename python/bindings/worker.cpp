// train/worker/language_runtime.h: a worker process whose train loop is written in Python.
#include <torch/csrc/distributed/c10d/debug.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <tuple>
#include <unordered_map>

#include "paceline/checkpoint/checkpoint.h"
#include "paceline/comm/backend.h"
#include "paceline/comm/control_store.h"
#include "paceline/comm/torch_distributed.h"
#include "paceline/core/config/debug_config.h"
#include "paceline/core/error.h"
#include "paceline/core/peer_lost.h"
#include "paceline/core/posix/forks.h"
#include "paceline/core/posix/process_title.h"
#include "paceline/core/run_layout.h"
#include "paceline/parallel/ddp/model_agreement.h"
#include "paceline/stacks/profile.h"
#include "paceline/stacks/python.h"
#include "paceline/train/session.h"
#include "paceline/train/worker/language_runtime.h"
#include "python/bindings/exception.h"
#include "python/bindings/json.h"
#include "python/bindings/modules.h"
#include "python/bindings/nccl.h"
#include "python/bindings/raised_status.h"

namespace paceline::python {
namespace {

namespace py = pybind11;

void call_without_lock(const std::function<void()>& what) {
  if (PyGILState_Check() == 0) return what();
  const py::gil_scoped_release released;
  what();
}
using train::WorkerStart;

// Workers of several machines have interfaces.
constexpr const char* kLoopback = "127.0.0.1";

// Of this process; null outside train(). The group of all ranks counts its collectives there.
Progress* progress = nullptr;
HomeProcess progress_home;  // of which forks, such as a loader's, are no workers: their groups are not the run's

Progress* progress_here() {
  return progress_home.is_here() ? progress : nullptr;
}

// `rank_in_run`: of a group of some ranks; negative: it is counted nowhere.
comm::BackendOptions options_of(int64_t rank, int64_t world_size, std::chrono::milliseconds timeout, bool counted,
                                int64_t rank_in_run) {
  return {.rank = rank,
          .world_size = world_size,
          .timeout = timeout,
          .address = kLoopback,
          .progress = counted || rank_in_run >= 0 ? progress_here() : nullptr,
          .is_of_all = counted,
          .rank_in_run = rank_in_run};
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> make_gloo(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank,
                                                     int64_t world_size, std::chrono::milliseconds timeout,
                                                     bool counted, int64_t rank_in_run) {
  return comm::make_gloo(store, options_of(rank, world_size, timeout, counted, rank_in_run));
}

c10::intrusive_ptr<c10d::Backend> make_shared_memory(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank,
                                                     int64_t world_size, std::chrono::milliseconds timeout,
                                                     bool counted, int64_t rank_in_run, const std::string& node) {
  comm::BackendOptions options = options_of(rank, world_size, timeout, counted, rank_in_run);
  if (progress == nullptr) options.address = "";
  options.node = node;
  return comm::make_shared_memory(store, options);
}

py::object make_watched_nccl(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank, int64_t world_size,
                             const c10::intrusive_ptr<c10d::Backend::Options>& options, bool counted,
                             int64_t rank_in_run) {
  return make_nccl(store, options, options_of(rank, world_size, options->timeout, counted, rank_in_run));
}

// Of one thread at one place: its name and number, functions with file and line, the outermost first, and bytes.
using PythonAllocations =
    std::tuple<std::string, int64_t, std::vector<std::tuple<std::string, std::string, int64_t>>, int64_t>;

py::bytes memory_profile(const std::vector<PythonAllocations>& found, pid_t pid, double seconds) {
  stacks::Profile profile{.pid = pid, .seconds = seconds, .unit = stacks::kBytes, .ways = {"memray"}};
  stacks::ProfileBuilder builder(profile);
  std::unordered_map<std::string, std::string> names;  // of the same few files, many times
  for (const auto& [thread, tid, functions, bytes] : found) {
    stacks::StackFrames frames;
    for (const auto& [function, file, line] : functions) {
      const auto [name, is_new] = names.try_emplace(file);
      if (is_new) name->second = stacks::file_in_package(file);
      frames.push_back({.function = function, .file = name->second, .line = line});
    }
    builder.add({.tid = tid, .name = thread, .language = stacks::kPythonCode}, frames, bytes);
  }
  return stacks::encode_lines({profile});
}

// Calls the object of paceline._worker. All calls come from the thread that has called run_worker(), with no GIL.
class PythonProgram final : public train::LanguageRuntime {
 public:
  explicit PythonProgram(py::object program) : program_(std::move(program)) {}

  // torch.distributed connects the ranks, as the program says.
  std::shared_ptr<comm::Group> connect(const comm::GroupOptions& options, const WorkerStart& start) override {
    return options.world_size == 1 ? LanguageRuntime::connect(options, start) : nullptr;
  }

  std::shared_ptr<comm::Group> group(const comm::GroupOptions& options) override {
    c10::intrusive_ptr<c10d::ProcessGroup> world;
    {
      const py::gil_scoped_acquire gil;
      const py::object found = py::module_::import("torch.distributed").attr("group").attr("WORLD");
      if (!found.is_none()) world = found.cast<c10::intrusive_ptr<c10d::ProcessGroup>>();
    }
    // One for each: it counts the groups that split off it.
    if (!world) {
      group_.reset();
    } else if (group_ == nullptr || group_->process_group() != world.get()) {
      group_ = comm::Group::over(world, options);
    }
    return group_;
  }

  rpc::StringMap versions() override {
    const py::gil_scoped_acquire gil;
    return program_.attr("versions")().cast<rpc::StringMap>();
  }

  void open_storage(std::string_view attachment) override {
    const py::gil_scoped_acquire gil;
    program_.attr("open_storage")(py::memoryview::from_memory(attachment.data(), std::ssize(attachment)));
  }

  void debug() override { train::take_terminal(); }

  void abort_collectives() override { comm::abort_backends(); }

  Json train(const WorkerStart& start) override {
    progress = &start.progress;
    progress_home = HomeProcess();
    const py::gil_scoped_acquire gil;
    if (start.welcome.debug_config.get<DebugConfig>().check_collectives) c10d::setDebugLevel(c10d::DebugLevel::Detail);
    const auto torch_config = start.welcome.torch_config;
    const auto timeout = std::chrono::milliseconds(static_cast<int64_t>(torch_config.value("timeout_s", 1800.0) * 1e3));
    const c10::intrusive_ptr<c10d::Store> store = comm::make_control_store(start.store, timeout);
    return to_json(
        program_.attr("train")(py::memoryview::from_memory(start.attachment.data(), std::ssize(start.attachment)),
                               to_python(torch_config), store),
        "the return value");
  }

  Metrics validate(const rpc::Welcome& welcome, std::string_view attachment) override {
    const py::gil_scoped_acquire gil;
    return Metrics(to_json(program_.attr("validate")(
                               py::memoryview::from_memory(attachment.data(), std::ssize(attachment)),
                               CheckpointAccess::published(welcome.checkpoint), to_python(welcome.validation_config)),
                           "the validation's metrics"));
  }

  data::DataServiceOptions data_service(const rpc::Welcome&, std::string_view attachment) override {
    const py::gil_scoped_acquire gil;
    const auto served =
        held(program_.attr("data_service")(py::memoryview::from_memory(attachment.data(), std::ssize(attachment))));
    const auto open = [served](const std::string& name) -> arrow::Result<std::shared_ptr<data::DatasetReader>> {
      const py::gil_scoped_acquire locked;
      try {
        return served->attr("open")(name).cast<std::shared_ptr<data::DatasetReader>>();
      } catch (const py::error_already_set& error) {
        return status_of(utf8(error.value()), exception_of(error));
      }
    };
    const auto serialize = [this](const arrow::Status& status) -> std::string {
      const RaisedStatus* raised = raised_in(status);
      if (raised == nullptr) return "";
      const py::gil_scoped_acquire locked;
      return program_.attr("serialized")(raised->exception()).cast<std::string>();
    };
    return {.open = open,
            .serialized = serialize,
            .threads = served->attr("threads").cast<int64_t>(),
            .read_ahead_bytes = served->attr("read_ahead_bytes").cast<int64_t>()};
  }

  rpc::Failed describe(const std::exception_ptr& exception) override {
    try {
      std::rethrow_exception(exception);
    } catch (const py::error_already_set& error) {
      const py::gil_scoped_acquire gil;
      return failed_of(program_, error);
    } catch (...) {
      return LanguageRuntime::describe(exception);
    }
  }

  std::string serialized(const std::exception_ptr& exception) override {
    try {
      std::rethrow_exception(exception);
    } catch (const py::error_already_set& error) {
      const py::gil_scoped_acquire gil;
      return program_.attr("serialized")(exception_of(error)).cast<std::string>();
    } catch (...) {
      return "";
    }
  }

  std::string profile_memory(double seconds) override {
    const py::gil_scoped_acquire gil;
    try {
      return program_.attr("profile_memory")(seconds).cast<std::string>();
    } catch (const py::error_already_set& error) {
      stacks::Profile profile{.pid = ::getpid(), .seconds = seconds, .unit = stacks::kBytes};
      profile.problems.push_back("memray could not be used: " + utf8(error.value()));
      return stacks::encode_lines({profile});
    }
  }

  void flush() override {
    {
      const py::gil_scoped_acquire gil;
      program_.attr("flush")();
    }
    LanguageRuntime::flush();
    train::give_terminal_back();
  }

 private:
  py::object program_;
  std::shared_ptr<comm::Group> group_;  // over torch.distributed's, null before anybody asks
};

}  // namespace

void bind_worker(py::module_& module) {
  module.attr("ARTIFACTS_FOLDER") = run_layout::kArtifacts;
  module.def(
      "run_worker",
      [](py::object program) {
        PythonProgram worker(std::move(program));
        const py::gil_scoped_release without_gil;
        train::run_worker(worker);
      },
      py::arg("program"), "Never returns: the process ends with its work.");
  module.def("make_gloo", &make_gloo, py::arg("store"), py::arg("rank"), py::arg("world_size"), py::arg("timeout"),
             py::arg("counted"), py::arg("rank_in_run") = -1, py::call_guard<py::gil_scoped_release>(),
             "A ProcessGroupGloo that is watched; `counted`: it is the one of all ranks. `rank_in_run`: of another, "
             "this rank's "
             "number in the run; negative: the group is not in the ledger.");
  module.def("make_shared_memory", &make_shared_memory, py::arg("store"), py::arg("rank"), py::arg("world_size"),
             py::arg("timeout"), py::arg("counted"), py::arg("rank_in_run") = -1, py::arg("node") = "",
             py::call_guard<py::gil_scoped_release>(),
             "The backend \"paceline\"; `counted` and `rank_in_run`: as of make_gloo(). Ranks that give other names of "
             "a `node` "
             "are taken for ranks of other machines.");
  bind_watched_nccl();
  module.def(
      "make_nccl", &make_watched_nccl, py::arg("store"), py::arg("rank"), py::arg("world_size"), py::arg("options"),
      py::arg("counted"), py::arg("rank_in_run") = -1,
      "A ProcessGroupNCCL that is watched; `options`: its Options. `counted` and `rank_in_run`: as of make_gloo().");
  module.def(
      "stop_callbacks", [](std::chrono::milliseconds most) { return comm::stop_callbacks(most, &call_without_lock); },
      py::arg("most"), py::call_guard<py::gil_scoped_release>(),
      "Before the interpreter ends: waits for callbacks of futures that other threads call, and lets none begin once "
      "it "
      "has ended.");
  module.def("ranks_wanted_in", &ranks_wanted_in, py::arg("text"),
             "The ranks for want of which a collective has failed, by its error's text.");
  module.def(
      "has_backend",
      [](const std::string& name) {
        const comm::Backend* const backend = comm::find_backend(name);
        return backend != nullptr && backend->is_built_in();
      },
      py::arg("name"), "Whether this build has what TorchConfig.backend calls so.");
  module.def(
      "default_backend",
      [](const std::string& device) { return comm::default_backend(torch::Device(device).type()).name; },
      py::arg("device"), "Of torch.distributed, for a device such as \"cuda:0\".");
  module.def(
      "backend_for",
      [](const std::string& chosen, const std::string& device) {
        return std::string(comm::backend_for(chosen, torch::Device(device).type()));
      },
      py::arg("chosen"), py::arg("device"), "The part of TorchConfig.backend that is for the device.");
  module.def(
      "train_loop_begins", [] { progress->set_phase(Phase::training); },
      "Called by train() of a worker's program before the loop's first line.");
  module.def("all_gather", &all_gather, py::arg("tensor"), py::call_guard<py::gil_scoped_release>(),
             "Paceline's own, for functions of C++ that a loop calls: over torch.distributed's group.");
  module.def("memory_profile", &memory_profile, py::arg("found"), py::arg("pid"), py::arg("seconds"),
             "What memray has found in a process, as a line of a profile.");
  module.def("count_step", &train::count_step, "A step of the train loop was taken; nothing where a loader counts.");
  module.def("watch_gradient", &train::watch_gradient, py::arg("name"), py::arg("parameter"));
  module.def("check_ranks_every", &train::check_ranks_every);
  module.def(
      "find_model_difference",
      [](const py::list& models_by_rank) {
        return parallel::find_difference(to_json(models_by_rank, "models").get<std::vector<Json>>());
      },
      py::arg("models_by_rank"), "The first tensor in which a rank's model differs from rank 0's, in words; or None.");
  module.def("set_process_title", [](const std::string& title) { (void)set_process_title(title); }, py::arg("title"));
}

}  // namespace paceline::python
