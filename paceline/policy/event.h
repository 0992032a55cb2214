// Event: everything that can happen to a run, as decide() takes it and the journal stores it.
//
// Each kind is declared once, and its JSON follows from the declaration. Events about a worker name it by id; those of
// workers that are no longer in the group change nothing.
#pragma once

#include <arrow/result.h>

#include <string>
#include <variant>
#include <vector>

#include "paceline/core/clock.h"
#include "paceline/core/progress.h"
#include "paceline/policy/state.h"

namespace paceline::policy {

// An event: a record with the name that it has in the journal.
#define PACELINE_EVENT(Name, type, FIELDS)        \
  struct Name {                                   \
    static constexpr const char* kType = type;    \
    PACELINE_RECORD_BODY_(Name, FIELDS)           \
    bool operator==(const Name&) const = default; \
  }

// A controller has taken the run: the first event of every epoch.
#define PACELINE_RUN_OPENED_FIELDS(FIELD)                                                           \
  FIELD(ControllerEpoch, epoch, {})                                                                 \
  FIELD(std::string, name, "") /* for readers */                                                    \
  FIELD(std::string, host, "") /* for readers */                                                    \
  FIELD(int64_t, pid, 0)       /* for readers */                                                    \
  FIELD(RunOptions, options, {})                                                                    \
  FIELD(Json, train_loop_config, Json::object()) /* for readers */                                  \
  FIELD(PublishedCheckpoints, checkpoints, {})   /* what the run folder holds */                    \
  FIELD(int64_t, last_report, 0)                 /* the highest number that the run folder holds */ \
  FIELD(double, last_seen, 0.0)                  /* the last time that an earlier controller left there */
PACELINE_EVENT(RunOpened, "run_opened", PACELINE_RUN_OPENED_FIELDS);

#define PACELINE_NODE_JOINED_FIELDS(FIELD) FIELD(Node, node, {})
PACELINE_EVENT(NodeJoined, "node_ready", PACELINE_NODE_JOINED_FIELDS);

// The launcher could not start an agent on the node.
#define PACELINE_NODE_NOT_STARTED_FIELDS(FIELD) \
  FIELD(std::string, node, "")                  \
  FIELD(std::string, error, "")                 \
  FIELD(int64_t, to_come, 0) /* others that are on their way */
PACELINE_EVENT(NodeNotStarted, "node_not_started", PACELINE_NODE_NOT_STARTED_FIELDS);

// The agent of the node, or its guardian, is gone, and so are its workers.
#define PACELINE_NODE_LOST_FIELDS(FIELD) \
  FIELD(std::string, node, "")           \
  FIELD(std::string, error, "")          \
  FIELD(int64_t, last_report, 0) /* the highest number seen */
PACELINE_EVENT(NodeLost, "node_lost", PACELINE_NODE_LOST_FIELDS);

// The connection to the agent of the node is cut, and a rank of another node has failed as if those there were gone.
// The node may come back; until it does, it is the cause.
#define PACELINE_NODE_UNREACHABLE_FIELDS(FIELD) FIELD(std::string, node, "")
PACELINE_EVENT(NodeUnreachable, "node_unreachable", PACELINE_NODE_UNREACHABLE_FIELDS);

#define PACELINE_WORKER_STARTED_FIELDS(FIELD) \
  FIELD(WorkerId, worker, {})                 \
  FIELD(int64_t, pid, 0)
PACELINE_EVENT(WorkerStarted, "process_started", PACELINE_WORKER_STARTED_FIELDS);

#define PACELINE_START_FAILED_FIELDS(FIELD) \
  FIELD(WorkerId, worker, {})               \
  FIELD(std::string, error, "")             \
  FIELD(bool, hopeless, false) /* another try would fail of the same */
PACELINE_EVENT(StartFailed, "start_failed", PACELINE_START_FAILED_FIELDS);

#define PACELINE_WORKER_JOINED_FIELDS(FIELD) \
  FIELD(WorkerId, worker, {})                \
  FIELD(int64_t, pid, 0)
PACELINE_EVENT(WorkerJoined, "joined", PACELINE_WORKER_JOINED_FIELDS);

#define PACELINE_WORKER_FINISHED_FIELDS(FIELD) \
  FIELD(WorkerId, worker, {})                  \
  FIELD(int64_t, reports, 0)                   \
  FIELD(Json, return_value, nullptr)
PACELINE_EVENT(WorkerFinished, "worker_finished", PACELINE_WORKER_FINISHED_FIELDS);

// Beside the end of a worker: what it had reported, and others are still to make (AwaitedReport of report_book.h).
#define PACELINE_AWAITED_FIELDS(FIELD) \
  FIELD(int64_t, awaited_report, 0)    \
  FIELD(bool, awaits_checkpoint, false)

// The train loop has thrown (rpc::Failed).
#define PACELINE_WORKER_FAILED_FIELDS(FIELD)                    \
  FIELD(WorkerId, worker, {})                                   \
  FIELD(std::string, exception, "")                             \
  FIELD(std::string, text, "")                                  \
  FIELD(Lines, frames, {})                                      \
  FIELD(bool, stopped, false) /* because it was told to stop */ \
  FIELD(bool, collateral, false)                                \
  PACELINE_AWAITED_FIELDS(FIELD)
PACELINE_EVENT(WorkerFailed, "worker_failed", PACELINE_WORKER_FAILED_FIELDS);

// The process and its tree are gone.
#define PACELINE_WORKER_EXITED_FIELDS(FIELD)                                                   \
  FIELD(WorkerId, worker, {})                                                                  \
  FIELD(ProcessEnd, end, {})     /* its members lie beside the others in the JSON */           \
  FIELD(int64_t, last_report, 0) /* number of the last report that came from it, 0 for none */ \
  PACELINE_AWAITED_FIELDS(FIELD)
PACELINE_EVENT(WorkerExited, "process_exited", PACELINE_WORKER_EXITED_FIELDS);

#define PACELINE_WORKER_SILENT_FIELDS(FIELD) \
  FIELD(WorkerId, worker, {})                \
  FIELD(double, silent_s, 0.0)               \
  FIELD(bool, stopped, false)                \
  FIELD(int64_t, step, 0)                    \
  FIELD(Phase, phase, Phase::unknown)
PACELINE_EVENT(WorkerSilent, "process_silent", PACELINE_WORKER_SILENT_FIELDS);

// Ranks make no progress (hang_detection.h).
#define PACELINE_HANG_FOUND_FIELDS(FIELD)                                                                          \
  FIELD(Attempt, attempt, {})                                                                                      \
  FIELD(Generation, generation, {})                                                                                \
  FIELD(std::vector<int64_t>, suspects, {}) /* their ranks */                                                      \
  FIELD(std::string, text, "")              /* which they are, and who waits for them */                           \
  FIELD(std::string, evidence, "")          /* folder with everybody's stacks, "" where it could not be written */ \
  FIELD(Lines, frames, {})                                                                                         \
  FIELD(int64_t, witness, -1) /* whose frames these are; it may tell better ones when it is ended */               \
  FIELD(bool, fail, false)    /* the group shall end for it */
PACELINE_EVENT(HangFound, "hang_found", PACELINE_HANG_FOUND_FIELDS);

// The ranks' reports do not fit together (report_book.h).
#define PACELINE_REPORT_REFUSED_FIELDS(FIELD) \
  FIELD(Attempt, attempt, {})                 \
  FIELD(Generation, generation, {})           \
  FIELD(int64_t, report, 0)                   \
  FIELD(std::string, error, "") /* names the ranks */
PACELINE_EVENT(ReportRefused, "report_refused", PACELINE_REPORT_REFUSED_FIELDS);

// Every rank's report of this number has arrived, and it has files.
#define PACELINE_CHECKPOINT_READY_FIELDS(FIELD) \
  FIELD(int64_t, report, 0)                     \
  FIELD(std::optional<ValidationTaskConfig>, validation, {}) /* for when it is published */
PACELINE_EVENT(CheckpointReady, "checkpoint_ready", PACELINE_CHECKPOINT_READY_FIELDS);

#define PACELINE_CHECKPOINT_PUBLISHED_FIELDS(FIELD) FIELD(PublishedCheckpoint, checkpoint, {})
PACELINE_EVENT(CheckpointPublished, "checkpoint_published", PACELINE_CHECKPOINT_PUBLISHED_FIELDS);

#define PACELINE_PUBLISH_FAILED_FIELDS(FIELD) \
  FIELD(int64_t, report, 0)                   \
  FIELD(std::string, error, "")
PACELINE_EVENT(PublishFailed, "publish_failed", PACELINE_PUBLISH_FAILED_FIELDS);

// A validation has used up its time, or shall not go on. Its process is ended.
#define PACELINE_VALIDATION_OVERDUE_FIELDS(FIELD) \
  FIELD(int64_t, report, 0)                       \
  FIELD(WorkerId, worker, {})                     \
  FIELD(std::string, error, "") /* why it shall not go on */
PACELINE_EVENT(ValidationOverdue, "validation_overdue", PACELINE_VALIDATION_OVERDUE_FIELDS);

// The process of a validation is gone, or was never there.
#define PACELINE_VALIDATION_ENDED_FIELDS(FIELD) \
  FIELD(int64_t, report, 0)                     \
  FIELD(WorkerId, worker, {})                   \
  FIELD(Json, metrics, Json::object())          \
  FIELD(std::string, error, "") /* why there are no metrics, "" when there are */
PACELINE_EVENT(ValidationEnded, "validation_ended", PACELINE_VALIDATION_ENDED_FIELDS);

// A data process is gone, or was never there.
#define PACELINE_DATA_PROCESS_ENDED_FIELDS(FIELD) \
  FIELD(WorkerId, worker, {})                     \
  FIELD(std::string, error, "")
PACELINE_EVENT(DataProcessEnded, "data_process_ended", PACELINE_DATA_PROCESS_ENDED_FIELDS);

// The run shall end.
#define PACELINE_STOP_REQUESTED_FIELDS(FIELD)                                                                \
  FIELD(std::string, reason, "") /* "": nobody gave one but the cause */                                     \
  /* it has done what it was meant to (a callback or its time limit says so); otherwise it is interrupted */ \
  FIELD(bool, finish, false)                                                                                 \
  FIELD(StopCause, cause, StopCause::unknown)
PACELINE_EVENT(StopRequested, "stop_requested", PACELINE_STOP_REQUESTED_FIELDS);

#define PACELINE_CALLBACK_FAILED_FIELDS(FIELD) \
  FIELD(std::string, callback, "")             \
  FIELD(std::string, error, "")
PACELINE_EVENT(CallbackFailed, "callback_failed", PACELINE_CALLBACK_FAILED_FIELDS);

// The run folder can no longer be written.
#define PACELINE_STORAGE_FAILED_FIELDS(FIELD) FIELD(std::string, error, "")
PACELINE_EVENT(StorageFailed, "storage_failed", PACELINE_STORAGE_FAILED_FIELDS);

// A SetTimer has come due.
#define PACELINE_TIMER_DUE_FIELDS(FIELD) \
  FIELD(int64_t, turn, 0)                \
  FIELD(int64_t, last_report, 0) /* the highest number seen */
PACELINE_EVENT(TimerDue, "timer", PACELINE_TIMER_DUE_FIELDS);

// Nodes will be taken away.
#define PACELINE_PREEMPTION_NOTICED_FIELDS(FIELD) \
  FIELD(Lines, nodes, {})                         \
  FIELD(double, deadline_s, 120.0) /* in so many seconds */
PACELINE_EVENT(PreemptionNoticed, "preemption_noticed", PACELINE_PREEMPTION_NOTICED_FIELDS);

#define PACELINE_RESIZE_WANTED_FIELDS(FIELD) \
  FIELD(int64_t, num_workers, 0)             \
  FIELD(std::string, reason, "")
PACELINE_EVENT(ResizeWanted, "resize_wanted", PACELINE_RESIZE_WANTED_FIELDS);

using Event = std::variant<RunOpened, NodeJoined, NodeNotStarted, NodeLost, NodeUnreachable, WorkerStarted, StartFailed,
                           WorkerJoined, WorkerFinished, WorkerFailed, WorkerExited, WorkerSilent, HangFound,
                           ReportRefused, CheckpointReady, CheckpointPublished, PublishFailed, ValidationOverdue,
                           ValidationEnded, DataProcessEnded, StopRequested, CallbackFailed, StorageFailed, TimerDue,
                           PreemptionNoticed, ResizeWanted>;

/// {"event": "joined", "worker": 3, …}
Json encode_event(const Event& event);
/// Invalid: no event of that name, or a field of another type.
arrow::Result<Event> decode_event(const Json& json);

/// `now` as it comes back from the journal: decide() gets this one, so that folding gives the same state.
Time journal_time(Time now);

}  // namespace paceline::policy
