// RunState: all that the controller knows when it decides. Plain data: it can be compared, printed and folded from the
// journal's events (state = fold(events)). Only decide() changes it.
//
// docs/architecture/run_states.md draws the states and their transitions. Times are seconds since the Unix epoch.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "paceline/core/config/checkpoint_config.h"
#include "paceline/core/config/validation_config.h"
#include "paceline/core/ending.h"
#include "paceline/core/ids.h"
#include "paceline/core/posix/process_end.h"
#include "paceline/core/published_checkpoint.h"
#include "paceline/core/record.h"

namespace paceline::policy {

enum class State {
  initializing,   // agents are coming up
  scheduling,     // processes are started, not all have joined
  rescheduling,   // a group could not be started: it is ended, then started again in the same attempt
  running,        // every worker has its rank
  preempting,     // as running, but a node will be taken away
  resizing,       // the group is ended because another size is wanted
  restarting,     // the group is ended after a failure; the next attempt follows
  shutting_down,  // the group is ended for good; `final_state` follows
  finished,
  errored,
  aborted
};
NLOHMANN_JSON_SERIALIZE_ENUM(State, {{State::initializing, "initializing"},
                                     {State::scheduling, "scheduling"},
                                     {State::rescheduling, "rescheduling"},
                                     {State::running, "running"},
                                     {State::preempting, "preempting"},
                                     {State::resizing, "resizing"},
                                     {State::restarting, "restarting"},
                                     {State::shutting_down, "shutting_down"},
                                     {State::finished, "finished"},
                                     {State::errored, "errored"},
                                     {State::aborted, "aborted"}})

std::string to_string(State state);
bool is_terminal(State state);
/// Whether the table of transitions has this one. Every state but the terminal ones also goes to `initializing` when a
/// new controller takes the run over, and so do the terminal ones when the run is trained again.
bool is_legal(State from, State to);

/// How far a worker has come.
enum class WorkerStage { starting, joined, training, finished, failed, gone };
NLOHMANN_JSON_SERIALIZE_ENUM(WorkerStage, {{WorkerStage::starting, "starting"},
                                           {WorkerStage::joined, "joined"},
                                           {WorkerStage::training, "training"},
                                           {WorkerStage::finished, "finished"},
                                           {WorkerStage::failed, "failed"},
                                           {WorkerStage::gone, "gone"}})

using Lines = std::vector<std::string>;

// One failure. `worker` 0 and `rank` -1: of the group, or before ranks were given. `collateral`: a consequence of
// another worker's failure, as far as the worker could tell. `end`: of the worker's process; until it has `ended` at
// most step and phase are known.
#define PACELINE_FAILURE_FIELDS(FIELD)             \
  FIELD(FailureKind, kind, FailureKind::exception) \
  FIELD(WorkerId, worker, {})                      \
  FIELD(int64_t, rank, -1)                         \
  FIELD(std::string, node, "")                     \
  FIELD(std::string, exception, "")                \
  FIELD(std::string, text, "")                     \
  FIELD(Lines, frames, {})                         \
  FIELD(bool, collateral, false)                   \
  FIELD(bool, ended, false)                        \
  FIELD(ProcessEnd, end, {})                       \
  FIELD(double, time, 0.0)
PACELINE_RECORD(Failure, PACELINE_FAILURE_FIELDS);

#define PACELINE_NODE_FIELDS(FIELD) \
  FIELD(std::string, name, "")      \
  FIELD(std::string, host, "")      \
  FIELD(int64_t, pid, 0)            \
  FIELD(int64_t, cores, 1)          \
  FIELD(int64_t, gpus, 0)
PACELINE_RECORD(Node, PACELINE_NODE_FIELDS);

// `node`: position in RunState::nodes. `rank` is -1 until all have joined. `reports`: number of its last report.
// `failure`: position in RunState::failures, -1 for none.
#define PACELINE_WORKER_FIELDS(FIELD)              \
  FIELD(WorkerId, id, {})                          \
  FIELD(WorkerStage, stage, WorkerStage::starting) \
  FIELD(int64_t, node, 0)                          \
  FIELD(int64_t, pid, 0)                           \
  FIELD(int64_t, rank, -1)                         \
  FIELD(int64_t, local_rank, 0)                    \
  FIELD(int64_t, local_world_size, 1)              \
  FIELD(int64_t, node_rank, 0)                     \
  FIELD(int64_t, reports, 0)                       \
  FIELD(int64_t, failure, -1)
PACELINE_RECORD(Worker, PACELINE_WORKER_FIELDS);

// A validation that has not ended. `worker`: id of its process, 0 while it waits for its checkpoint or its turn.
#define PACELINE_VALIDATION_FIELDS(FIELD) \
  FIELD(int64_t, report, 0)               \
  FIELD(ValidationTaskConfig, task, {})   \
  FIELD(WorkerId, worker, {})             \
  FIELD(int64_t, node, 0)
PACELINE_RECORD(Validation, PACELINE_VALIDATION_FIELDS);

// What the run was asked for, as far as decisions depend on it. -1 is without limit. `nodes`: agents that will announce
// themselves. `gpus_per_worker` 0: no GPUs wanted. `failure_grace_s`: that workers have to end by themselves after
// another's failure; the default is enough for ranks with the same exception to be heard.
// `max_validations`: at once; 0: the run has no validation function.
#define PACELINE_RUN_OPTIONS_FIELDS(FIELD)     \
  FIELD(int64_t, num_workers, 1)               \
  FIELD(int64_t, nodes, 1)                     \
  FIELD(int64_t, gpus_per_worker, 0)           \
  FIELD(int64_t, max_failures, 0)              \
  FIELD(int64_t, controller_failure_limit, -1) \
  FIELD(int64_t, max_preemption_failures, -1)  \
  FIELD(double, start_timeout_s, 60.0)         \
  FIELD(double, stop_grace_s, 5.0)             \
  FIELD(double, failure_grace_s, 0.25)         \
  FIELD(std::optional<double>, max_time, {})   \
  FIELD(int64_t, max_validations, 0)           \
  FIELD(CheckpointConfig, checkpoint_config, {})
PACELINE_RECORD(RunOptions, PACELINE_RUN_OPTIONS_FIELDS);

using WorkerTable = std::map<WorkerId, Worker>;
using ReportNumbers = std::set<int64_t>;
using RankErrors = std::map<int64_t, std::string>;

// `turn` counts transitions: timers carry it, so that one set in an earlier state is recognised as stale.
// `workers`: the group of the current attempt, the gone included until the next is started; `live`, `joined` and
// `completed` (train loop returned) count them. `failures_in_a_row`: without a published checkpoint in between, for the
// back-off. `start_problem`: what the last start failed of, `start_problem_count` times in a row; exits count only
// while no worker has ever joined. `cause_pending`: only collateral failures so far, a cause is waited for.
// `opened`: when the controller took the run; `used_s`: seconds that earlier controllers had the same unfinished run,
// for max_time.
// `publishing`: reports whose checkpoint is being published. `validations`: in the order of reports. `closed`: nothing
// is left of the group; `backing_off`: the next try waits. `first_report`: of this attempt. `last_report`: the highest
// number seen. `failure_kind`: of what the `error` says first.
#define PACELINE_RUN_STATE_FIELDS(FIELD)              \
  FIELD(State, state, State::initializing)            \
  FIELD(double, since, 0.0)                           \
  FIELD(int64_t, turn, 0)                             \
  FIELD(ControllerEpoch, epoch, {})                   \
  FIELD(RunOptions, options, {})                      \
  FIELD(Attempt, attempt, {})                         \
  FIELD(Generation, generation, {})                   \
  FIELD(WorkerId, last_worker, {})                    \
  FIELD(int64_t, world_size, 0)                       \
  FIELD(double, opened, 0.0)                          \
  FIELD(double, used_s, 0.0)                          \
  FIELD(std::vector<Node>, nodes, {})                 \
  FIELD(WorkerTable, workers, {})                     \
  FIELD(int64_t, live, 0)                             \
  FIELD(int64_t, joined, 0)                           \
  FIELD(int64_t, completed, 0)                        \
  FIELD(int64_t, worker_failures, 0)                  \
  FIELD(int64_t, start_failures, 0)                   \
  FIELD(int64_t, preemption_failures, 0)              \
  FIELD(int64_t, failures_in_a_row, 0)                \
  FIELD(bool, ever_joined, false)                     \
  FIELD(std::string, start_problem, "")               \
  FIELD(int64_t, start_problem_count, 0)              \
  FIELD(std::vector<Failure>, failures, {})           \
  FIELD(bool, cause_pending, false)                   \
  FIELD(bool, closed, true)                           \
  FIELD(bool, backing_off, false)                     \
  FIELD(int64_t, first_report, 1)                     \
  FIELD(int64_t, last_report, 0)                      \
  FIELD(PublishedCheckpoints, checkpoints, {})        \
  FIELD(ReportNumbers, publishing, {})                \
  FIELD(std::vector<Validation>, validations, {})     \
  FIELD(Lines, preempted_nodes, {})                   \
  FIELD(int64_t, stop_requests, 0)                    \
  FIELD(StopCause, stop_cause, StopCause::unknown)    \
  FIELD(std::string, stop_reason, "")                 \
  FIELD(State, final_state, State::finished)          \
  FIELD(std::string, error, "")                       \
  FIELD(std::optional<FailureKind>, failure_kind, {}) \
  FIELD(RankErrors, worker_errors, {})                \
  FIELD(Json, return_value, nullptr)
PACELINE_RECORD(RunState, PACELINE_RUN_STATE_FIELDS);

}  // namespace paceline::policy
