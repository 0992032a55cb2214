// RunRequest: everything that defines a run, and how its place is taken before it begins.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/clock.h"
#include "paceline/core/config/run_config.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/core/config/validation_config.h"
#include "paceline/core/json.h"
#include "paceline/policy/state.h"
#include "paceline/rpc/messages.h"
#include "paceline/rpc/role.h"
#include "paceline/storage/local/run_lock.h"
#include "paceline/storage/location.h"
#include "paceline/track/terminal.h"

namespace paceline::controller {

/// Whether the driver shows what a rank, by its number on its node (-1: not known yet), writes to "stdout" or "stderr".
/// Called on the controller's thread.
using ShowsOutput = std::function<bool(int64_t local_rank, const std::string& stream)>;

/// Takes the bytes that a worker's language has made of the exception that ended its train loop; rank -1 without bytes:
/// another group begins. Called on the controller's thread, before callbacks are told of the failure.
using TakesException = std::function<void(int64_t rank, const std::string& bytes)>;

/// Starts a dashboard of the driver's own, and gives the address that opens it; called once at most.
using ServesDashboard = std::function<arrow::Result<std::string>()>;

/// Takes the address of the run's page in a dashboard; must not throw.
using TakesPage = std::function<void(const std::string& url)>;

/// How a run's processes begin.
struct ProcessStart {
  /// Command line: the driver's own program and arguments.
  std::vector<std::string> program;
  /// The guardian forks them from itself (Guardian::fork_with_workers), rather than executing `program`.
  bool fork = false;
  /// Command line of a process from which they are forked (agent/fork/fork_server.h); empty: each is started by itself.
  std::vector<std::string> fork_server;
  /// For the log, where they do not begin as users expect; "" for nothing.
  std::string note;
};

/// Everything that defines a run. take_run() fills the first five fields. What a trainer says is filled in by
/// train::take_run(), what `paceline run` says by launch::run_launch(); both have validated it.
struct RunRequest {
  /// Absolute. It exists, and the caller has locked it.
  std::string run_folder;
  /// Where users see the run: the folder, or a URI.
  storage::Location location;
  /// The user's run store (track/run_store.h); "" for none.
  std::string run_store;
  /// Its name is set.
  RunConfig run_config;
  /// What the driver has of what must be the same on all nodes, by name (version_check.h).
  rpc::StringMap versions;
  /// Working directory of the workers: the driver's.
  std::string directory;
  ScalingConfig scaling_config;
  Json torch_config = Json::object();
  /// Seconds that workers have to end by themselves after another's failure.
  double failure_grace_s = policy::RunOptions{}.failure_grace_s;
  /// The same where that was a SIGKILL.
  double killed_grace_s = policy::RunOptions{}.killed_grace_s;
  /// Not 0: each node has as many workers as it says, and a group has so many nodes at most; ScalingConfig.nodes are
  /// enough, when the others have not come `last_call_s` later. num_workers is what the first say together.
  int64_t most_nodes = 0;
  double last_call_s = 0;
  /// What the ranks' processes are for.
  rpc::Role role = rpc::kWorkerRole;
  std::string train_loop;
  Json train_loop_config = Json::object();
  /// What the workers' program needs beside that, as bytes that only it understands: Python's train loop. They outlive
  /// the run.
  std::string_view attachment;
  ProcessStart start;
  /// Null: nobody wants them. They are stored nowhere.
  TakesException take_exception;
  /// Empty: all output is shown.
  ShowsOutput shows_output;
  /// What takes the place of the driver's standard streams, where its program has replaced them; empty: the process's
  /// own. The first is called on a thread of its own, which may wait in it; the second on any, one call at a time.
  track::TextSink standard_output, standard_error;
  /// Called with RunConfig.dashboard, where no dashboard shows the run yet.
  ServesDashboard serve_dashboard;
  /// Shows the page's address in the terminal's place; null: the terminal has it.
  TakesPage take_page;
  /// Workers' lines on standard output that is no terminal are as they are, without their writers' names.
  bool bare_output = false;
  /// How often a lease of a folder that machines share is renewed, where not as storage::LeaseOptions says: for tests.
  std::optional<Duration> lease_renewal;
  std::optional<Duration> lease_takeover;
  /// What `attachment` holds, or the train loop's configuration, has datasets: each node gets a data process.
  bool has_datasets = false;
  /// Registered name of the function that validates checkpoints, "" for none; what it gets where a report says nothing
  /// else, and how many run at once.
  std::string validation_fn;
  ValidationTaskConfig validation_task;
  int64_t max_validations = 1;
  /// A checkpoint that a new run starts from.
  std::optional<storage::Location> resume_from_checkpoint;
};

/// A run that is this process's until the lock goes.
struct TakenRun {
  RunRequest request;
  storage::RunLock lock;
};

/// Gives the run a name after `program` if it has none, makes its folder in RunConfig.storage_path and locks it.
/// AlreadyExists naming the holder when another driver has the run; other errors name RunConfig.storage_path.
arrow::Result<TakenRun> take_run(const RunConfig& run_config, const std::string& program);

/// What decide() needs to know of the request, for a run of `world_size` ranks.
policy::RunOptions options_of(const RunRequest& request, int64_t world_size);

/// Says in `options` what each worker needs of its node, where there are several.
void ask_of_nodes(const ScalingConfig& scaling, policy::RunOptions& options);
/// The settings that choose among nodes, as a list; "" where there is none. They have no effect on one machine.
std::string settings_of_other_nodes(const ScalingConfig& scaling);

/// Where the checkpoint with that folder's name is when it is published.
storage::Location checkpoint_location(const RunRequest& request, const std::string& name);

}  // namespace paceline::controller
