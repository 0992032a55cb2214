// A launch: a program started on every rank, as a run with a folder, a journal, logs and restarts.
//
// The calling process is the driver: its controller and agent work as for fit(), and each worker process is a program
// worker (program_worker.h) that runs the program. On several nodes it holds the controller, and an agent for its own
// node; on each other node an agent joins it. Blocks the calling thread; StopSignal may be used from any.
#pragma once

#include <arrow/result.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/agent/guardian.h"
#include "paceline/agent/node.h"
#include "paceline/controller/controller.h"
#include "paceline/launch/program.h"
#include "paceline/launch/program_plan.h"

namespace paceline::launch {

/// The nodes of a launch on several.
struct Nodes {
  /// So many are enough, when as many as there may be at most have not come within `last_call_s` then.
  int64_t least = 1;
  int64_t most = 1;
  double last_call_s = 0;
  /// Where the other nodes' agents reach this process, "HOST:PORT", and the file by which they find it.
  std::string listen;
  std::string token_file;
  /// What is said of this node: its rank, its address.
  agent::NodeOptions here;
};

struct Launch {
  int64_t num_workers = 1;  // on this node; others say how many they have
  std::optional<Nodes> nodes;
  /// Machines on which ssh starts agents, each with `num_workers` ranks; empty: see above.
  std::vector<std::string> hosts;
  /// Its machines are those of a Ray cluster (controller/launcher/ray.h), for ranks as this says, in the place of both.
  std::optional<ScalingConfig> ray;
  RunConfig run_config;  // a name is made up where there is none
  std::string program;   // as the user named it: that name begins with it
  ProgramPlan plan;      // first_attempt is found out
  /// Whether what a rank, by its number on its node (-1: not known yet), writes to a stream is shown; empty: all is.
  controller::ShowsOutput shows_output;
};

/// The folder that Python programs get in front of PYTHONPATH (python/start): the installed one beside this program, or
/// the source's; "" when there is neither.
std::string python_folder();

/// What must be the same on all nodes of a launch: this program's version. What ranks run is their nodes' own.
rpc::StringMap own_versions();

/// The command line of the workers that start `command` on this machine.
rpc::Strings worker_command(const rpc::Strings& command);

/// Runs it to the end. The exit code of `paceline run` (controller::exit_code_of()): 0 when every rank's program has
/// ended with 0; that of the first that failed, 128 + its signal when one ended it; 128 + the signal that asked for a
/// stop. `error`: what there is to say about it. A Status is returned for what kept the run from beginning.
struct LaunchOutcome {
  int exit_code = 0;
  std::string error;
  storage::Location location;  // of the run
};
arrow::Result<LaunchOutcome> run_launch(const Launch& launch, const agent::Guardian& guardian,
                                        controller::StopSignal& stop);

}  // namespace paceline::launch
