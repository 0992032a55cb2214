// Action: what decide() wants done. The controller's shell executes actions in order; the simulation plays them.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "paceline/core/clock.h"
#include "paceline/core/log.h"
#include "paceline/policy/state.h"

namespace paceline::policy {

/// The run has gone from one state to another. `reason` is never empty.
struct EnterState {
  State from = State::initializing;
  State to = State::initializing;
  std::string reason;
  Attempt attempt;
  int64_t world_size = 0;
};

/// Start a worker process on a node (its position in RunState::nodes).
struct StartWorker {
  WorkerId worker;
  int64_t node = 0;
};

/// Give every worker of the group its place and let it enter the train loop: RunState::workers has the ranks.
struct AssignWorkers {
  Attempt attempt;
  Generation generation;
  /// Number of the first report.
  int64_t first_report = 1;
  /// Report whose checkpoint the attempt starts from; 0 for none of this run's.
  int64_t checkpoint = 0;
};

/// Tell the worker to stop; kill its tree after the grace.
struct EndWorker {
  WorkerId worker;
  double grace_s = 0;
  std::string reason;
};

/// The group of that generation is gone: what its report book still holds is stored, and its rendezvous keys are
/// dropped. `failure`: why it ended, in one line; "" when nothing failed.
struct CloseGroup {
  Attempt attempt;
  Generation generation;
  std::string failure;
};

struct PublishCheckpoint {
  int64_t report = 0;
};

/// `name`: of its folder.
struct DeleteCheckpoint {
  int64_t report = 0;
  std::string name;
  /// Another's publication has put that one's folder in the place of its.
  bool is_gone = false;
};

/// Tell every worker that the checkpoint is published.
struct TellCommitted {
  int64_t report = 0;
};

/// Start a process that validates a published checkpoint; feed ValidationOverdue when the task's time is over.
struct StartValidation {
  int64_t report = 0;
  WorkerId worker;
  int64_t node = 0;
  ValidationTaskConfig task;
};

/// Kill the validation's process tree.
struct EndValidation {
  WorkerId worker;
  std::string reason;
};

/// Start the process that reads datasets for the ranks of a node. It ends with the run.
struct StartDataProcess {
  WorkerId worker;
  int64_t node = 0;
};

/// Feed TimerDue{turn} at `at`. One timer at a time: setting replaces.
struct SetTimer {
  int64_t turn = 0;
  Time at;
};

/// Call the callbacks' after_exception: a group of that attempt has failed.
struct TellCallbacks {
  Attempt attempt;
  std::map<int64_t, std::string> errors;
};

/// A decision and its reason, for the log.
struct Note {
  LogLevel level = LogLevel::info;
  std::string text;
};

/// The run has reached a final state: RunState has state, error and return value.
struct Finish {};

using Action = std::variant<EnterState, StartWorker, AssignWorkers, EndWorker, CloseGroup, PublishCheckpoint,
                            DeleteCheckpoint, TellCommitted, StartValidation, EndValidation, StartDataProcess, SetTimer,
                            TellCallbacks, Note, Finish>;
using Actions = std::vector<Action>;

}  // namespace paceline::policy
