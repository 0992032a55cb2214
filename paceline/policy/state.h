// RunState: all that the controller knows when it decides. Plain data: it can be compared, printed and folded from the
// journal's events (state = fold(events)). Only decide() changes it.
//
// docs/architecture/run_states.md draws the states and their transitions. Times are seconds since the Unix epoch.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/core/config/checkpoint_config.h"
#include "paceline/core/config/scaling_config.h"
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
/// The final state that `state` is; nothing while the run goes on.
std::optional<FinalState> final_state_of(State state);
bool is_terminal(State state);
/// The state of a run that has ended so.
State state_of(FinalState state);
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

// One failure.
#define PACELINE_FAILURE_FIELDS(FIELD)                                                          \
  FIELD(FailureKind, kind, FailureKind::exception)                                              \
  FIELD(WorkerId, worker, {}) /* 0: of the group */                                             \
  FIELD(int64_t, rank, -1)    /* -1: before ranks were given, or of the group */                \
  FIELD(std::string, node, "")                                                                  \
  FIELD(std::string, exception, "") /* the exception's type */                                  \
  FIELD(std::string, text, "")                                                                  \
  FIELD(Lines, frames, {})    /* the user's own, innermost first */                             \
  FIELD(int64_t, witness, -1) /* of a hang: the rank whose frames these are */                  \
  /* a consequence of another worker's failure, as far as the worker could tell */              \
  FIELD(bool, collateral, false)                                                                \
  FIELD(bool, ended, false)  /* its process has; until then step and phase are known at most */ \
  FIELD(ProcessEnd, end, {}) /* its members lie beside the others in the JSON */                \
  FIELD(double, time, 0.0)
PACELINE_RECORD(Failure, PACELINE_FAILURE_FIELDS);

// A node that is lost keeps its place in RunState::nodes; an agent that comes is another node.
#define PACELINE_NODE_FIELDS(FIELD)                                                                  \
  FIELD(std::string, name, "")                                                                       \
  FIELD(std::string, host, "")                                                                       \
  FIELD(int64_t, pid, 0)                                                                             \
  FIELD(int64_t, cores, 1)                                                                           \
  FIELD(int64_t, gpus, 0)                                                                            \
  FIELD(int64_t, memory_bytes, 0)                                                                    \
  FIELD(Resources, resources, {}) /* others, by name */                                              \
  FIELD(Labels, labels, {})                                                                          \
  FIELD(std::string, address, "") /* where the other nodes' workers reach it; "": on this machine */ \
  FIELD(int64_t, rank, -1)        /* as NodeReady's, likewise the next */                            \
  FIELD(int64_t, workers, 0)                                                                         \
  FIELD(int64_t, failures, 0) /* groups that failed of a worker here */                              \
  FIELD(bool, lost, false)
PACELINE_RECORD(Node, PACELINE_NODE_FIELDS);

// One worker of the group.
#define PACELINE_WORKER_FIELDS(FIELD)                             \
  FIELD(WorkerId, id, {})                                         \
  FIELD(WorkerStage, stage, WorkerStage::starting)                \
  FIELD(int64_t, node, 0) /* position in RunState::nodes */       \
  FIELD(int64_t, pid, 0)                                          \
  FIELD(int64_t, rank, -1) /* -1 until all have joined */         \
  FIELD(int64_t, local_rank, 0)                                   \
  FIELD(int64_t, local_world_size, 1)                             \
  FIELD(int64_t, node_rank, 0)                                    \
  FIELD(bool, completed, false) /* its train loop has returned */ \
  FIELD(int64_t, reports, 0)    /* number of its last report */   \
  FIELD(int64_t, failure, -1)   /* position in RunState::failures, -1 for none */
PACELINE_RECORD(Worker, PACELINE_WORKER_FIELDS);

/// As readers see it: a worker that has finished stays so when its process is gone.
WorkerStage shown_stage(const Worker& worker);

// A validation that has not ended.
#define PACELINE_VALIDATION_FIELDS(FIELD)                                                           \
  FIELD(int64_t, report, 0) /* whose checkpoint it looks at */                                      \
  FIELD(ValidationTaskConfig, task, {})                                                             \
  FIELD(WorkerId, worker, {}) /* of its process, 0 while it waits for its checkpoint or its turn */ \
  FIELD(int64_t, node, 0)
PACELINE_RECORD(Validation, PACELINE_VALIDATION_FIELDS);

// The process that reads datasets for the ranks of a node. It is kept over attempts.
#define PACELINE_DATA_PROCESS_FIELDS(FIELD)          \
  FIELD(WorkerId, worker, {}) /* 0: there is none */ \
  FIELD(int64_t, ends, 0)     /* how often one has ended in this attempt */
PACELINE_RECORD(DataProcess, PACELINE_DATA_PROCESS_FIELDS);

// What the run was asked for, as far as decisions depend on it. A limit of -1 is none.
#define PACELINE_RUN_OPTIONS_FIELDS(FIELD)                                                                   \
  FIELD(int64_t, num_workers, 1)                                                                             \
  FIELD(int64_t, nodes, 1)           /* agents that will announce themselves */                              \
  FIELD(bool, nodes_may_come, false) /* after a loss, and beyond these: the engine may give others */        \
  FIELD(double, node_timeout_s, 0.0) /* of these: the silence after which one is lost, with its processes */ \
  /* not 0: each node has as many workers as it says, and a group has so many nodes at most */               \
  FIELD(int64_t, most_nodes, 0)                                                                              \
  FIELD(double, last_call_s, 0.0)                /* so long others are waited for when `nodes` are there */  \
  FIELD(double, cpus_per_worker, 0.0)            /* 0: workers may share cores */                            \
  FIELD(double, gpus_per_worker, 0.0)            /* 0: no GPUs wanted; below 1: of one that workers share */ \
  FIELD(double, memory_per_worker, 0.0)          /* bytes */                                                 \
  FIELD(Resources, resources_per_worker, {})     /* others, by name */                                       \
  FIELD(std::string, placement_strategy, "PACK") /* placement.h */                                           \
  FIELD(Labels, label_selector, {})              /* that nodes must have */                                  \
  FIELD(int64_t, max_failures, 0)                                                                            \
  FIELD(int64_t, controller_failure_limit, -1)                                                               \
  FIELD(int64_t, max_preemption_failures, -1)                                                                \
  FIELD(double, start_timeout_s, 60.0)                                                                       \
  FIELD(double, stop_grace_s, 5.0)                                                                           \
  /* for workers to end by themselves after another's failure: ranks with the same exception are heard */    \
  FIELD(double, failure_grace_s, 0.25)                                                                       \
  /* the same after a SIGKILL, which says nothing that others could be about to say as well */               \
  FIELD(double, killed_grace_s, 0.05)                                                                        \
  FIELD(std::optional<double>, max_time, {})                                                                 \
  FIELD(bool, launch, false)         /* of `paceline run`: its settings are flags, see setting_name.h */     \
  FIELD(int64_t, max_validations, 0) /* at once; 0: the run has no validation function */                    \
  FIELD(bool, has_datasets, false)   /* each node has a data process */                                      \
  FIELD(CheckpointConfig, checkpoint_config, {})
PACELINE_RECORD(RunOptions, PACELINE_RUN_OPTIONS_FIELDS);

using WorkerTable = std::map<WorkerId, Worker>;
using ReportNumbers = std::set<int64_t>;
using RankErrors = std::map<int64_t, std::string>;

// All that decide() knows of the run.
#define PACELINE_RUN_STATE_FIELDS(FIELD)                                                                              \
  FIELD(State, state, State::initializing)                                                                            \
  FIELD(double, since, 0.0)                                                                                           \
  /* counts transitions; timers carry it, so that one set in an earlier state is recognised as stale */               \
  FIELD(int64_t, turn, 0)                                                                                             \
  FIELD(ControllerEpoch, epoch, {})                                                                                   \
  FIELD(RunOptions, options, {})                                                                                      \
  FIELD(Attempt, attempt, {})                                                                                         \
  FIELD(Generation, generation, {})                                                                                   \
  FIELD(WorkerId, last_worker, {})                                                                                    \
  FIELD(int64_t, world_size, 0)                                                                                       \
  FIELD(double, opened, 0.0) /* when the controller took the run */                                                   \
  FIELD(double, used_s, 0.0) /* seconds that earlier controllers had the same unfinished run, for max_time */         \
  FIELD(std::vector<Node>, nodes, {})                                                                                 \
  FIELD(WorkerTable, workers, {}) /* the group of the current attempt, the gone included until the next is started */ \
  FIELD(int64_t, live, 0)         /* workers that are not gone */                                                     \
  FIELD(int64_t, joined, 0)       /* workers that have joined */                                                      \
  FIELD(int64_t, completed, 0)    /* workers whose train loop has returned */                                         \
  FIELD(int64_t, worker_failures, 0)                                                                                  \
  FIELD(int64_t, start_failures, 0)                                                                                   \
  FIELD(int64_t, preemption_failures, 0)                                                                              \
  FIELD(int64_t, failures_in_a_row, 0)   /* without a published checkpoint in between, for the back-off */            \
  FIELD(bool, ever_trained, false)       /* a worker has been seen in its train loop */                               \
  FIELD(std::string, start_problem, "")  /* what the last start failed of */                                          \
  FIELD(int64_t, start_problem_count, 0) /* times in a row that it failed of it */                                    \
  FIELD(std::vector<Failure>, failures, {})                                                                           \
  FIELD(bool, judgement_pending, false) /* workers have failed, but their cause, or a report, is waited for */        \
  FIELD(int64_t, awaited_report, 0)     /* it is what those had made and others are still to make; 0 for none */      \
  FIELD(bool, awaits_checkpoint, false) /* of that report */                                                          \
  FIELD(bool, closed, true)             /* nothing is left of the group */                                            \
  FIELD(bool, backing_off, false)       /* the next try waits */                                                      \
  FIELD(bool, last_call, false)         /* enough nodes are there, and others have some time to come */               \
  FIELD(int64_t, first_report, 1)       /* of this attempt */                                                         \
  FIELD(int64_t, last_report, 0)        /* the highest number seen */                                                 \
  FIELD(PublishedCheckpoints, checkpoints, {})                                                                        \
  FIELD(ReportNumbers, publishing, {})                /* reports whose checkpoint is being published */               \
  FIELD(std::vector<Validation>, validations, {})     /* in the order of reports */                                   \
  FIELD(std::vector<DataProcess>, data_processes, {}) /* by position in nodes; empty without datasets */              \
  FIELD(Lines, preempted_nodes, {})                                                                                   \
  FIELD(int64_t, stop_requests, 0)                                                                                    \
  FIELD(StopCause, stop_cause, StopCause::unknown)                                                                    \
  FIELD(std::string, stop_reason, "")                                                                                 \
  FIELD(FinalState, final_state, FinalState::finished)                                                                \
  FIELD(std::string, error, "")                                                                                       \
  FIELD(std::optional<FailureKind>, failure_kind, {}) /* of what the error says first */                              \
  FIELD(RankErrors, worker_errors, {})                                                                                \
  FIELD(Json, return_value, nullptr)
PACELINE_RECORD(RunState, PACELINE_RUN_STATE_FIELDS);

}  // namespace paceline::policy
