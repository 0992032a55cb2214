// LanguageRuntime: what the worker processes of a run do, whatever language the train loop is written in. Not for
// users: init() has the program of C++, the Python package its own.
//
// run_worker() is the life of such a process: it takes the agent's channel, keeps the session behind report() and its
// kin, and calls the program. Threading: all calls come from the thread that called run_worker().
#pragma once

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "paceline/comm/group.h"
#include "paceline/core/dictionary.h"
#include "paceline/core/json.h"
#include "paceline/core/progress.h"
#include "paceline/data/service/data_client.h"
#include "paceline/data/service/data_service.h"
#include "paceline/rpc/key_value.h"
#include "paceline/rpc/messages.h"
#include "paceline/storage/location.h"

namespace paceline::train {

/// What a program is told about its process and its place in the group. What it refers to outlives it.
struct WorkerStart {
  const rpc::Welcome& welcome;
  /// What the driver's RunRequest::attachment was.
  std::string_view attachment;
  const rpc::Assign& assign;
  /// The rendezvous store of this generation.
  std::shared_ptr<rpc::KeyValueClient> store;
  /// The process's phase, and what the program counts itself.
  Progress& progress;
};

/// An exception of the train loop's language on its way through C++ code, with what the controller is to be told of it;
/// `original()` is the exception itself, for where it comes back to that language.
class LanguageException : public std::runtime_error {
 public:
  LanguageException(rpc::Failed failed, std::exception_ptr original)
      : std::runtime_error(failed.text), failed_(std::move(failed)), original_(std::move(original)) {}
  const rpc::Failed& failed() const { return failed_; }
  const std::exception_ptr& original() const { return original_; }

 private:
  rpc::Failed failed_;
  std::exception_ptr original_;
};

/// Of a program in C++, what must be the same on all nodes, by name: LibTorch's version, and the program's build.
rpc::StringMap versions_of_program();

class LanguageRuntime {
 public:
  virtual ~LanguageRuntime() = default;
  /// By name, of what must be the same on all nodes: by default versions_of_program().
  virtual rpc::StringMap versions();
  /// The group of this generation's ranks: by default C++'s own. Null for a program that connects its ranks itself.
  virtual std::shared_ptr<comm::Group> connect(const comm::GroupOptions& options, const WorkerStart& start);
  /// Of a program that connects its ranks itself, the group of all that it has now; null for none.
  virtual std::shared_ptr<comm::Group> group(const comm::GroupOptions& options) {
    (void)options;
    return nullptr;
  }
  /// Called before the run's storage is first looked at: makes the file systems that the driver has given known in this
  /// process (storage/objects/custom.h), if there are any.
  virtual void open_storage(std::string_view attachment) { (void)attachment; }
  /// Called right before train() in the rank that DebugConfig.debug_rank names: by default gdb stops it.
  virtual void debug();
  /// Called on another thread when the run is being stopped: makes collectives that wait fail.
  virtual void abort_collectives() {}
  /// Runs the train loop, inside a session; what it returns. Sets the phase to `training` before the loop's first
  /// line: a process that dies before has not started, which costs nothing of the user's max_failures.
  virtual Json train(const WorkerStart& start) = 0;
  /// Validates the checkpoint at `welcome.checkpoint`; its metrics.
  virtual Metrics validate(const rpc::Welcome& welcome, std::string_view attachment) = 0;
  /// In a data process: what it serves, the datasets that come with the attachment.
  virtual data::DataServiceOptions data_service(const rpc::Welcome& welcome, std::string_view attachment);
  /// What the controller is told of an exception that train() or validate() has thrown.
  virtual rpc::Failed describe(const std::exception_ptr& exception);
  /// Bytes of which the driver's side of the language can make that exception again (RunRequest::take_exception); ""
  /// for none.
  virtual std::string serialized(const std::exception_ptr& exception);
  /// What the language itself knows of memory that is allocated in so many seconds: a profile, as a line of JSON
  /// (stacks/profile.h); "" where it knows nothing, and what LibTorch allocates is looked at. Called on a thread apart.
  virtual std::string profile_memory(double seconds) {
    (void)seconds;
    return "";
  }
  /// The last call before the process ends: writes what is buffered.
  virtual void flush();
};

/// What debug() does for a language whose debugger runs in the process itself: until the process ends, the driver's
/// terminal is its standard input, output and error, and Ctrl-C is its alone. UsageError when the driver has none.
void take_terminal();
/// Back to whoever had it before; nothing where take_terminal() was not called. For flush().
void give_terminal_back();

/// What prepare_model() does for a loop of another language: watches the gradient of `parameter`, if
/// DebugConfig.nan_watch asks for it.
void watch_gradient(const std::string& name, const torch::Tensor& parameter);
/// For the loops of another language whose batches come from loaders that Paceline does not know: a step has been
/// taken, and another begins. Nothing where a loader counts the steps, and outside a train loop.
void count_step();
/// Where the run is stored whose train loop this is, with the keys. UsageError outside of one.
storage::Location run_location();
/// Where the ranks of this worker group reach each other.
struct GroupPlace {
  /// This rank, and its network interface; 127.0.0.1 and "lo" where all ranks are on this machine.
  std::string address;
  std::string interface;
  /// Rank 0.
  std::string master_address;
};
/// Of the run whose train loop this is. UsageError outside of one.
GroupPlace group_place();
/// The readers of the trainer's datasets, whose batches the node's data process makes; null where there is none: in
/// the calling process. `restored` as in DataClientOptions.
std::shared_ptr<data::DataClient> data_client(decltype(data::DataClientOptions::restored) restored);
/// DebugConfig.check_ranks_every.
int64_t check_ranks_every();

/// Connects to the agent, calls the program once per assignment, and ends the process.
[[noreturn]] void run_worker(LanguageRuntime& program);

}  // namespace paceline::train
