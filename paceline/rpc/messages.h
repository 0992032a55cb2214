// Every message of the control plane, declared once. Times in seconds, sizes in bytes.
//
// Who speaks: controller ⇄ agent (processes), controller ⇄ worker through the worker's agent (training; the envelope's
// identity.worker says which), agent ⇄ worker (Welcome, Heartbeat), command line ⇄ controller (status, stop_run).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "paceline/core/config/scaling_config.h"
#include "paceline/core/config/validation_config.h"
#include "paceline/core/ids.h"
#include "paceline/core/posix/process_end.h"
#include "paceline/core/progress.h"
#include "paceline/core/published_checkpoint.h"
#include "paceline/core/record.h"
#include "paceline/rpc/envelope.h"
#include "paceline/rpc/role.h"

namespace paceline::rpc {

using Strings = std::vector<std::string>;
using MaybeValidation = std::optional<ValidationTaskConfig>;
using StringMap = std::map<std::string, std::string>;

// A message: a record with the name that it travels under.
#define PACELINE_MESSAGE(Name, type, FIELDS)      \
  struct Name {                                   \
    static constexpr const char* kType = type;    \
    PACELINE_RECORD_BODY_(Name, FIELDS)           \
    bool operator==(const Name&) const = default; \
  }

// --- controller → agent: processes -------------------------------------------------------------------------------

// What all processes of the run get that are started after it: sealed memory (sealed_memory.h), whose descriptor comes
// with this and with each Welcome, so that its size has no limit. To an agent elsewhere its bytes go instead, in parts.
#define PACELINE_ATTACHMENT_FIELDS(FIELD) FIELD(bool, more, false) /* of bytes: others follow, behind these */
PACELINE_MESSAGE(Attachment, "attachment", PACELINE_ATTACHMENT_FIELDS);

// Starts a process.
#define PACELINE_START_PROCESS_FIELDS(FIELD)                                                             \
  FIELD(Strings, arguments, {})                                                                          \
  FIELD(StringMap, environment, {}) /* replaces the whole environment */                                 \
  FIELD(bool, inherit, false)       /* it is set over the agent's own instead */                         \
  FIELD(std::string, directory, "")                                                                      \
  FIELD(bool, fork, false) /* the guardian forks it from itself instead of executing the arguments */    \
  /* command line of the process to fork from, which has loaded what it needs */                         \
  FIELD(Strings, fork_server, {})                                                                        \
  FIELD(std::string, fork_server_key, "") /* processes with equal keys have the fork server in common */ \
  FIELD(std::string, log_file, "")                                                                       \
  FIELD(bool, writes_log, true) /* the agent; otherwise whoever it tells the lines */                    \
  FIELD(int64_t, log_file_bytes, 0)                                                                      \
  FIELD(int64_t, log_files, 1)                                                                           \
  FIELD(double, heartbeat_timeout_s, 30.0)                                                               \
  FIELD(bool, heap_profile, false)    /* it has a heap profiler (stacks/heap_profiler.h) */              \
  FIELD(bool, serves_data, false)     /* it is who ConnectData connects the others with */               \
  FIELD(Strings, waiting_streams, {}) /* whose writers wait while what they wrote is not taken */        \
  /* body of the Welcome that the process receives first, which says what it is for */                   \
  FIELD(Json, welcome, Json::object())
PACELINE_MESSAGE(StartProcess, "start_process", PACELINE_START_PROCESS_FIELDS);

// Ends the process and its whole tree: a Stop on its channel first, then SIGKILL. No reply; process_exited follows when
// the tree is gone.
#define PACELINE_END_PROCESS_FIELDS(FIELD)                              \
  FIELD(double, grace_s, 0.0)    /* seconds from the Stop to SIGKILL */ \
  FIELD(std::string, reason, "") /* for the Stop */                     \
  FIELD(int64_t, signal, 15)     /* for the Stop */
PACELINE_MESSAGE(EndProcess, "end_process", PACELINE_END_PROCESS_FIELDS);

// So many bytes of a waiting stream's lines, their ends included, have been written to where they go.
#define PACELINE_OUTPUT_TAKEN_FIELDS(FIELD) \
  FIELD(std::string, stream, "stdout")      \
  FIELD(int64_t, bytes, 0)
PACELINE_MESSAGE(OutputTaken, "output_taken", PACELINE_OUTPUT_TAKEN_FIELDS);

// The last message: the run is over, or has no use for this agent. Whoever has started the agent may want to know.
#define PACELINE_DISMISSED_FIELDS(FIELD)                            \
  FIELD(int64_t, exit_code, 0)   /* that `paceline run` has then */ \
  FIELD(std::string, reason, "") /* why, where it is not 0; one line */
PACELINE_MESSAGE(Dismissed, "dismissed", PACELINE_DISMISSED_FIELDS);

// What shall not remain of the run when the driver dies: removed in this order by whoever outlives the driver, while no
// other driver holds the run. Absolute paths. Each takes the place of the one before.
#define PACELINE_LEFTOVERS_FIELDS(FIELD)                                              \
  FIELD(std::string, run_folder, "")                                                  \
  FIELD(Strings, files, {})   /* sockets and others, and folders if they are empty */ \
  FIELD(Strings, folders, {}) /* with all that is in them */
PACELINE_MESSAGE(Leftovers, "leftovers", PACELINE_LEFTOVERS_FIELDS);

// --- agent → controller ------------------------------------------------------------------------------------------

#define PACELINE_NODE_READY_FIELDS(FIELD)                                                                       \
  FIELD(std::string, node, "")                                                                                  \
  FIELD(std::string, host, "")                                                                                  \
  FIELD(int64_t, pid, 0)                                                                                        \
  FIELD(int64_t, cores, 1)                                                                                      \
  FIELD(int64_t, gpus, 0)                                                                                       \
  FIELD(int64_t, memory_bytes, 0) /* that processes may have */                                                 \
  FIELD(Resources, resources, {}) /* others, by name */                                                         \
  FIELD(StringMap, labels, {})                                                                                  \
  FIELD(std::string, address, "") /* where other nodes reach it; "" where none needs to */                      \
  FIELD(int64_t, rank, -1)        /* its place among the nodes; -1: as they come, behind those that have one */ \
  FIELD(int64_t, workers, 0)      /* so many it is to have where each node says that; 0: as placement finds */
PACELINE_MESSAGE(NodeReady, "node_ready", PACELINE_NODE_READY_FIELDS);

// The agent's guardian is gone, so the agent can no longer start or watch processes, and ends those that it has. Sent
// once.
#define PACELINE_NODE_FAILED_FIELDS(FIELD) FIELD(std::string, error, "")
PACELINE_MESSAGE(NodeFailed, "node_failed", PACELINE_NODE_FAILED_FIELDS);

// The node will be taken away in so many seconds; until then all goes on.
#define PACELINE_NODE_LEAVING_FIELDS(FIELD) FIELD(double, seconds, 0.0)
PACELINE_MESSAGE(NodeLeaving, "node_leaving", PACELINE_NODE_LEAVING_FIELDS);

#define PACELINE_PROCESS_STARTED_FIELDS(FIELD) FIELD(int64_t, pid, 0)
PACELINE_MESSAGE(ProcessStarted, "process_started", PACELINE_PROCESS_STARTED_FIELDS);

#define PACELINE_PROCESS_START_FAILED_FIELDS(FIELD) \
  FIELD(std::string, error, "")                     \
  FIELD(bool, hopeless, false) /* another try would fail of the same */
PACELINE_MESSAGE(ProcessStartFailed, "process_start_failed", PACELINE_PROCESS_START_FAILED_FIELDS);

// The process and its tree are gone; nothing more comes from it: its output and its messages went before. In the bytes:
// its last collectives, by the wall clock (core/collective_ledger.h).
#define PACELINE_PROCESS_EXITED_FIELDS(FIELD) FIELD(ProcessEnd, end, {})
PACELINE_MESSAGE(ProcessExited, "process_exited", PACELINE_PROCESS_EXITED_FIELDS);

// No heartbeat for as long as StartProcess allowed.
#define PACELINE_PROCESS_SILENT_FIELDS(FIELD)             \
  FIELD(double, silent_s, 0.0)                            \
  FIELD(bool, stopped, false) /* by a signal (SIGSTOP) */ \
  FIELD(int64_t, step, 0)                                 \
  FIELD(Phase, phase, Phase::unknown)
PACELINE_MESSAGE(ProcessSilent, "process_silent", PACELINE_PROCESS_SILENT_FIELDS);

// Whole lines that the process wrote; they are in its log file already. Of a waiting stream, OutputTaken answers it.
#define PACELINE_OUTPUT_FIELDS(FIELD)                                                                               \
  FIELD(std::string, stream, "stdout")                                                                              \
  FIELD(Strings, lines, {})                                                                                         \
  FIELD(bool, waits, false)                                                                                         \
  FIELD(std::optional<std::string>, bar, {}) /* what unfinished lines that draw over themselves show now, with "\n" \
                                                between them; "": nothing */
PACELINE_MESSAGE(Output, "output", PACELINE_OUTPUT_FIELDS);

/// Of its lines, with their ends.
inline int64_t bytes_of(const Output& output) {
  int64_t bytes = 0;
  for (const std::string& line : output.lines) bytes += std::ssize(line) + 1;
  return bytes;
}

// --- controller ⇄ agent: what processes are doing ----------------------------------------------------------------

// Answered at once with ProgressReply: what every process of the agent noted last in its shared-memory word.
#define PACELINE_PROGRESS_REQUEST_FIELDS(FIELD)
PACELINE_MESSAGE(ProgressRequest, "progress_request", PACELINE_PROGRESS_REQUEST_FIELDS);

// Of one process; core/progress.h explains the fields.
#define PACELINE_GROUP_COUNTS_FIELDS(FIELD) \
  FIELD(int64_t, group, 0)                  \
  FIELD(int64_t, begun, 0)                  \
  FIELD(int64_t, done, 0)                   \
  FIELD(std::string, collective, "") /* that it waits in, or the last */
PACELINE_RECORD(GroupCounts, PACELINE_GROUP_COUNTS_FIELDS);
using AllGroupCounts = std::vector<GroupCounts>;

#define PACELINE_PROCESS_PROGRESS_FIELDS(FIELD)                                                         \
  FIELD(WorkerId, worker, {})                                                                           \
  FIELD(int64_t, step, 0)                                                                               \
  FIELD(Phase, phase, Phase::unknown)                                                                   \
  FIELD(double, phase_s, 0.0)                                                                           \
  FIELD(double, idle_s, 0.0)                                                                            \
  FIELD(int64_t, marks, 0)                                                                              \
  FIELD(double, longest_pause_s, 0.0)                                                                   \
  FIELD(int64_t, steps_timed, 0)                                                                        \
  FIELD(double, step_s, 0.0)                                                                            \
  FIELD(TimeSpent, spent, {})                                                                           \
  FIELD(AllGroupCounts, groups, {})                                                                     \
  FIELD(double, started, 0.0) /* of core/posix/process_usage.h, as the next two; 0 when it has ended */ \
  FIELD(double, cpu_s, 0.0)                                                                             \
  FIELD(int64_t, resident_bytes, 0)
PACELINE_RECORD(ProcessProgress, PACELINE_PROCESS_PROGRESS_FIELDS);
using ProcessProgresses = std::vector<ProcessProgress>;

#define PACELINE_PROGRESS_REPLY_FIELDS(FIELD) FIELD(ProcessProgresses, processes, {})
PACELINE_MESSAGE(ProgressReply, "progress_reply", PACELINE_PROGRESS_REPLY_FIELDS);

// Answered with StacksReply when the stacks of these workers' threads have been taken.
#define PACELINE_STACKS_REQUEST_FIELDS(FIELD) FIELD(std::vector<WorkerId>, workers, {})
PACELINE_MESSAGE(StacksRequest, "stacks_request", PACELINE_STACKS_REQUEST_FIELDS);

// The stacks are in the bytes, one line of JSON for each worker (stacks/stack.h). Also from controller to command line.
#define PACELINE_STACKS_REPLY_FIELDS(FIELD)
PACELINE_MESSAGE(StacksReply, "stacks_reply", PACELINE_STACKS_REPLY_FIELDS);

/// Kinds of profiles: where processor time goes; where threads wait; who has allocated memory; which operators ran
/// when.
inline constexpr const char* kCpuProfile = "cpu";
inline constexpr const char* kOffCpuProfile = "off_cpu";
inline constexpr const char* kMemoryProfile = "memory";
inline constexpr const char* kTimelineProfile = "timeline";

// Answered with ProfileReply when these workers have been sampled for so long and their samples have names.
#define PACELINE_PROFILE_REQUEST_FIELDS(FIELD)                           \
  FIELD(std::vector<WorkerId>, workers, {})                              \
  FIELD(double, seconds, 5.0)                                            \
  FIELD(double, rate, 99.0) /* of "cpu": per second of processor time */ \
  FIELD(std::string, kind, kCpuProfile)                                  \
  FIELD(int64_t, steps, 0) /* as RunProfileRequest's */
PACELINE_MESSAGE(ProfileRequest, "profile_request", PACELINE_PROFILE_REQUEST_FIELDS);

// The profiles are in the bytes, one line of JSON for each process (stacks/profile.h), and behind them the timelines,
// in the order of the lines. Also from controller to command line, without timelines.
#define PACELINE_PROFILE_REPLY_FIELDS(FIELD)                                             \
  FIELD(std::vector<int64_t>, timelines, {}) /* bytes of each; 0: there is none */       \
  FIELD(std::string, folder, "")             /* in which the controller has kept them */ \
  FIELD(std::string, problem, "")            /* why there are none, or why they are not kept */
PACELINE_MESSAGE(ProfileReply, "profile_reply", PACELINE_PROFILE_REPLY_FIELDS);

// Answered with CollectivesReply at once. From the command line: of all ranks; the answer, without bytes, comes when
// the files in the run folder (run/collectives.h) are those of now.
#define PACELINE_COLLECTIVES_REQUEST_FIELDS(FIELD)
PACELINE_MESSAGE(CollectivesRequest, "collectives_request", PACELINE_COLLECTIVES_REQUEST_FIELDS);

// Of every process of the agent: its records as ProcessExited has them, one process behind the other in the bytes.
#define PACELINE_COLLECTIVES_REPLY_FIELDS(FIELD) \
  FIELD(std::vector<WorkerId>, workers, {})      \
  FIELD(std::vector<int64_t>, sizes, {}) /* in bytes, of each */
PACELINE_MESSAGE(CollectivesReply, "collectives_reply", PACELINE_COLLECTIVES_REPLY_FIELDS);

// --- agent → process ---------------------------------------------------------------------------------------------

/// Environment variable of a started process that names its end of the channel, a descriptor number.
inline constexpr const char* kChannelVariable = "PACELINE_CHANNEL";
/// Names a folder of the agent's, where processes may put what goes with it; not set by an agent inside the driver.
inline constexpr const char* kNodeFolderVariable = "PACELINE_NODE_FOLDER";

// First message on the channel: what the process is for. With it comes the descriptor of the run's attachment, if it
// has one: the train loop's configuration, as JSON, then what a program needs that finds no train loop by name.
#define PACELINE_WELCOME_FIELDS(FIELD)                                                                    \
  /* who reads the rest (role.h): a worker runs the train loop, a validation calls `validation_fn` */     \
  FIELD(std::string, role, std::string(kWorkerRole.name))                                                 \
  FIELD(std::string, run_name, "")                                                                        \
  FIELD(std::string, run_folder, "")    /* the driver's working folder */                                 \
  FIELD(std::string, location, "")      /* where users see the run: the same folder, or a URI */          \
  FIELD(std::string, storage_proof, "") /* storage_proof.h */                                             \
  FIELD(std::string, train_loop, "")                                                                      \
  FIELD(Json, train_loop_config, Json::object()) /* where it is not in the attachment */                  \
  FIELD(int64_t, config_bytes, 0)                /* how much of the attachment it is */                   \
  FIELD(Json, scaling_config, Json::object())                                                             \
  FIELD(Json, torch_config, Json::object())                                                               \
  FIELD(Json, debug_config, Json::object())                                                               \
  FIELD(std::string, validation_fn, "")          /* to a worker: whether the run has one, "" for none */  \
  FIELD(Json, validation_config, Json::object()) /* of the validation's call */                           \
  FIELD(std::string, checkpoint, "")             /* that it looks at: a path */                           \
  FIELD(std::string, figures_file, "")           /* of a data process: where it keeps what it has done */ \
  FIELD(bool, has_datasets, false)               /* the node has a data process */                        \
  FIELD(int64_t, threads, 1)                                                                              \
  FIELD(double, heartbeat_interval_s, 1.0)
PACELINE_MESSAGE(Welcome, "welcome", PACELINE_WELCOME_FIELDS);

// The process samples what its threads do, from now on (stacks/sampler.h), which Sampling answers at once; or it
// profiles itself otherwise, which Sampling answers in the end.
#define PACELINE_SAMPLE_FIELDS(FIELD)   \
  FIELD(double, seconds, 5.0)           \
  FIELD(double, rate, 99.0)             \
  FIELD(std::string, kind, kCpuProfile) \
  FIELD(int64_t, steps, 0) /* as RunProfileRequest's */
PACELINE_MESSAGE(Sample, "sample", PACELINE_SAMPLE_FIELDS);

// Its descriptor is the memory to which the samples go; of another kind than "cpu", memory with a profile, a line of
// JSON (stacks/profile.h), and behind that the timeline, if it has one, or with what the heap profiler has written
// (stacks/heap_dump.h). None where there is a problem.
#define PACELINE_SAMPLING_FIELDS(FIELD) FIELD(std::string, problem, "") /* why it does not */
PACELINE_MESSAGE(Sampling, "sampling", PACELINE_SAMPLING_FIELDS);

// --- agent ⇄ process: the data process of the node ------------------------------------------------------------------

// A worker's request for a connection with the data process. Answered, once there is one, with DataConnection, whose
// descriptor is one end of a socket pair; the data process gets the other with DataClient.
#define PACELINE_CONNECT_DATA_FIELDS(FIELD)
PACELINE_MESSAGE(ConnectData, "connect_data", PACELINE_CONNECT_DATA_FIELDS);

#define PACELINE_DATA_CONNECTION_FIELDS(FIELD)
PACELINE_MESSAGE(DataConnection, "data_connection", PACELINE_DATA_CONNECTION_FIELDS);

#define PACELINE_DATA_CLIENT_FIELDS(FIELD)
PACELINE_MESSAGE(DataClient, "data_client", PACELINE_DATA_CLIENT_FIELDS);

// --- controller → worker -----------------------------------------------------------------------------------------

// The worker's place, and the signal to enter the train loop. May come again in the same process (a new generation).
#define PACELINE_ASSIGN_FIELDS(FIELD)                                                             \
  FIELD(Rank, rank, {})                                                                           \
  FIELD(int64_t, world_size, 1)                                                                   \
  FIELD(int64_t, local_rank, 0)                                                                   \
  FIELD(int64_t, local_world_size, 1)                                                             \
  FIELD(int64_t, node_rank, 0)                                                                    \
  FIELD(std::string, node, "")                                                                    \
  FIELD(std::string, address, "")        /* for collectives; "": all ranks are on this machine */ \
  FIELD(std::string, master_address, "") /* rank 0's, likewise */                                 \
  FIELD(int64_t, nodes, 1)               /* that have ranks */                                    \
  FIELD(std::string, checkpoint, "")     /* path of the one to start from, "" for none */         \
  FIELD(int64_t, first_report, 1)        /* continues the numbers of the run's reports over attempts */
PACELINE_MESSAGE(Assign, "assign", PACELINE_ASSIGN_FIELDS);

// The worker shall end: its next report, batch or collective throws.
#define PACELINE_STOP_FIELDS(FIELD) \
  FIELD(std::string, reason, "")    \
  FIELD(int64_t, signal, 15) /* for a program of the user's */
PACELINE_MESSAGE(Stop, "stop", PACELINE_STOP_FIELDS);

// A checkpoint is published and durable.
#define PACELINE_CHECKPOINT_COMMITTED_FIELDS(FIELD)  \
  FIELD(int64_t, index, 0) /* its report's number */ \
  FIELD(std::string, path, "")
PACELINE_MESSAGE(CheckpointCommitted, "checkpoint_committed", PACELINE_CHECKPOINT_COMMITTED_FIELDS);

// Somebody wants a checkpoint, and when the ranks' loops ask whether one is wanted (checkpoint_requested()), all are to
// hear it at the same of their calls. Answered with CheckpointPlace; the loop's next call then waits for
// CheckpointDecided with that number.
#define PACELINE_ASK_FOR_CHECKPOINT_FIELDS(FIELD) FIELD(int64_t, number, 0)
PACELINE_MESSAGE(AskForCheckpoint, "ask_for_checkpoint", PACELINE_ASK_FOR_CHECKPOINT_FIELDS);

#define PACELINE_CHECKPOINT_DECIDED_FIELDS(FIELD) \
  FIELD(int64_t, number, 0)                       \
  FIELD(int64_t, call, 0) /* the loop's call that hears of it; 0: none */
PACELINE_MESSAGE(CheckpointDecided, "checkpoint_decided", PACELINE_CHECKPOINT_DECIDED_FIELDS);

// The worker's reports up to this number are in the books: it may be kReportsAhead further.
#define PACELINE_REPORTS_TAKEN_FIELDS(FIELD) FIELD(int64_t, index, 0)
PACELINE_MESSAGE(ReportsTaken, "reports_taken", PACELINE_REPORTS_TAKEN_FIELDS);
/// So many reports of a worker may be on their way: a controller that is held up (by a callback, a disk) holds up its
/// workers, and nobody's memory fills. It answers each kReportsBetweenAnswers.
inline constexpr int64_t kReportsAhead = 256;
inline constexpr int64_t kReportsBetweenAnswers = 64;

// --- worker → agent, worker → controller -------------------------------------------------------------------------

// First message of a process. Its descriptors: the progress word (core/progress.h); memory for a note of its crash
// (stacks/self_capture.h), which may be left out.
#define PACELINE_JOINED_FIELDS(FIELD) \
  FIELD(int64_t, pid, 0)              \
  FIELD(std::string, host, "")        \
  FIELD(StringMap, versions, {}) /* by name, of what must be the same on all nodes */
PACELINE_MESSAGE(Joined, "joined", PACELINE_JOINED_FIELDS);

// The process lives; what its training thread does stands in the progress word.
#define PACELINE_HEARTBEAT_FIELDS(FIELD)
PACELINE_MESSAGE(Heartbeat, "heartbeat", PACELINE_HEARTBEAT_FIELDS);

// One report() of a rank.
#define PACELINE_REPORT_FIELDS(FIELD)                                                                              \
  FIELD(int64_t, index, 0) /* which of the rank's reports this is */                                               \
  FIELD(Json, metrics, Json::object())                                                                             \
  FIELD(std::string, reduce, "")      /* how metrics of the ranks become one: "", "mean", "sum", "min" or "max" */ \
  FIELD(bool, has_checkpoint, false)  /* the rank passed a checkpoint at all */                                    \
  FIELD(bool, collective_save, false) /* it comes from Checkpoint::save, which every rank must call */             \
  /* what the checkpoint's folder is to be called, "" for the report's own name */                                 \
  FIELD(std::string, folder_name, "")                                                                              \
  FIELD(MaybeValidation, validation, {}) /* what to validate the checkpoint with */                                \
  /* folder below the run's with this rank's durable files and its part of the manifest; "": it hands over none */ \
  FIELD(std::string, staged, "")                                                                                   \
  FIELD(bool, uploading, false) /* its files are on their way: CheckpointUploaded follows and names them */
PACELINE_MESSAGE(Report, "report", PACELINE_REPORT_FIELDS);

// The files of a report that was made while they were on their way. A rank's come in the order of its reports.
#define PACELINE_CHECKPOINT_UPLOADED_FIELDS(FIELD) \
  FIELD(int64_t, index, 0)                         \
  FIELD(std::string, staged, "") /* as the report's */
PACELINE_MESSAGE(CheckpointUploaded, "checkpoint_uploaded", PACELINE_CHECKPOINT_UPLOADED_FIELDS);

// The train loop has returned.
#define PACELINE_FINISHED_FIELDS(FIELD)                 \
  FIELD(int64_t, reports, 0) /* how many it has made */ \
  FIELD(Json, return_value, nullptr)
PACELINE_MESSAGE(Finished, "finished", PACELINE_FINISHED_FIELDS);

// The train loop has thrown.
#define PACELINE_FAILED_FIELDS(FIELD)                                       \
  FIELD(std::string, kind, "") /* the exception's type */                   \
  FIELD(std::string, text, "")                                              \
  FIELD(Strings, frames, {})     /* the user's own, innermost first */      \
  FIELD(bool, stopped, false)    /* it ended because it was told to stop */ \
  FIELD(bool, collateral, false) /* a collective failed, most likely because another rank died first */
PACELINE_MESSAGE(Failed, "failed", PACELINE_FAILED_FIELDS);

// What the function of a validation process has returned.
#define PACELINE_VALIDATED_FIELDS(FIELD) FIELD(Json, metrics, Json::object())
PACELINE_MESSAGE(Validated, "validated", PACELINE_VALIDATED_FIELDS);

// What the terminal shows of a rank's progress: "epoch 3", 12 of 391.
#define PACELINE_PROGRESS_BAR_FIELDS(FIELD) \
  FIELD(std::string, label, "")             \
  FIELD(int64_t, done, 0)                   \
  FIELD(int64_t, total, 0)                  \
  FIELD(double, rate, 0.0)
PACELINE_MESSAGE(ProgressBar, "progress_bar", PACELINE_PROGRESS_BAR_FIELDS);

// --- worker ⇄ controller: the key-value store of the rendezvous ---------------------------------------------------

// The c10d store's operations, which key_value.h explains.
enum class StoreOperation { unknown, set, get, add, compare_set, append, check, wait, delete_key, num_keys };

NLOHMANN_JSON_SERIALIZE_ENUM(StoreOperation, {{StoreOperation::unknown, ""},
                                              {StoreOperation::set, "set"},
                                              {StoreOperation::get, "get"},
                                              {StoreOperation::add, "add"},
                                              {StoreOperation::compare_set, "compare_set"},
                                              {StoreOperation::append, "append"},
                                              {StoreOperation::check, "check"},
                                              {StoreOperation::wait, "wait"},
                                              {StoreOperation::delete_key, "delete_key"},
                                              {StoreOperation::num_keys, "num_keys"}})

// Bytes beside it: the expected value, then the value. The
// identity's attempt and generation say which keys are meant.
#define PACELINE_STORE_REQUEST_FIELDS(FIELD)                                            \
  FIELD(StoreOperation, operation, StoreOperation::unknown)                             \
  FIELD(Strings, keys, {})                                                              \
  FIELD(int64_t, amount, 0)                                                             \
  FIELD(int64_t, expected_size, 0) /* of the expected value, in the envelope's bytes */ \
  FIELD(double, timeout_s, 0.0)
PACELINE_MESSAGE(StoreRequest, "store_request", PACELINE_STORE_REQUEST_FIELDS);

enum class StoreOutcome {
  invalid,
  ok,
  timeout,
  closed  // the generation is over
};

NLOHMANN_JSON_SERIALIZE_ENUM(StoreOutcome, {{StoreOutcome::invalid, "invalid"},
                                            {StoreOutcome::ok, "ok"},
                                            {StoreOutcome::timeout, "timeout"},
                                            {StoreOutcome::closed, "closed"}})

// The value is in the bytes.
#define PACELINE_STORE_REPLY_FIELDS(FIELD)                                        \
  FIELD(StoreOutcome, outcome, StoreOutcome::ok)                                  \
  FIELD(int64_t, number, 0)     /* answers add, check, delete_key and num_keys */ \
  FIELD(Strings, missing, {})   /* keys that were not there at a timeout */       \
  FIELD(std::string, error, "") /* why it is invalid */
PACELINE_MESSAGE(StoreReply, "store_reply", PACELINE_STORE_REPLY_FIELDS);

// --- worker ⇄ controller: all reported checkpoints -----------------------------------------------------------------

// Answered with CheckpointsReply once all ranks have made a report, and what it and those before it handed over is
// published.
#define PACELINE_CHECKPOINTS_REQUEST_FIELDS(FIELD)                           \
  FIELD(int64_t, report, 0)      /* the number of that report */             \
  FIELD(bool, validated, true)   /* and once their validations have ended */ \
  FIELD(double, timeout_s, -1.0) /* after this long it is answered in any case; -1: never */
PACELINE_MESSAGE(CheckpointsRequest, "checkpoints_request", PACELINE_CHECKPOINTS_REQUEST_FIELDS);

// Those that are kept, the worst first (without a score the oldest): their records as a JSON array in the envelope's
// bytes, because all their metrics may be more than a head may hold.
#define PACELINE_CHECKPOINTS_REPLY_FIELDS(FIELD)
PACELINE_MESSAGE(CheckpointsReply, "checkpoints_reply", PACELINE_CHECKPOINTS_REPLY_FIELDS);

// In place of a reply that cannot be sent.
#define PACELINE_REFUSED_FIELDS(FIELD) FIELD(std::string, error, "")
PACELINE_MESSAGE(Refused, "refused", PACELINE_REFUSED_FIELDS);

// Answers AskForCheckpoint.
#define PACELINE_CHECKPOINT_PLACE_FIELDS(FIELD) \
  FIELD(int64_t, number, 0)                     \
  FIELD(int64_t, calls, -1) /* of checkpoint_requested() so far; -1: the worker is in no train loop */
PACELINE_MESSAGE(CheckpointPlace, "checkpoint_place", PACELINE_CHECKPOINT_PLACE_FIELDS);

// --- command line ⇄ controller of a live run ---------------------------------------------------------------------

#define PACELINE_STATUS_REQUEST_FIELDS(FIELD)
PACELINE_MESSAGE(StatusRequest, "status_request", PACELINE_STATUS_REQUEST_FIELDS);

#define PACELINE_STATUS_REPLY_FIELDS(FIELD) \
  FIELD(Json, status, Json::object())       \
  FIELD(bool, is_partial, false) /* what can be said while the controller is in the user's code; its answer follows */
PACELINE_MESSAGE(StatusReply, "status_reply", PACELINE_STATUS_REPLY_FIELDS);

// Also from an agent, whose user wants the run to stop.
#define PACELINE_STOP_RUN_FIELDS(FIELD) FIELD(std::string, reason, "")
PACELINE_MESSAGE(StopRun, "stop_run", PACELINE_STOP_RUN_FIELDS);

// Answered with StacksReply.
#define PACELINE_RUN_STACKS_REQUEST_FIELDS(FIELD) FIELD(int64_t, rank, -1) /* -1: of all */
PACELINE_MESSAGE(RunStacksRequest, "run_stacks_request", PACELINE_RUN_STACKS_REQUEST_FIELDS);

// Answered with ProfileReply.
#define PACELINE_RUN_PROFILE_REQUEST_FIELDS(FIELD)    \
  FIELD(int64_t, rank, -1)    /* -1: all */           \
  FIELD(double, seconds, 5.0) /* from 1 to 60 */      \
  FIELD(std::string, who, "") /* asks, for the log */ \
  FIELD(std::string, kind, kCpuProfile)               \
  FIELD(int64_t, steps, 0) /* of "timeline": until so many steps have ended, within `seconds`; 0: for `seconds` */
PACELINE_MESSAGE(RunProfileRequest, "run_profile_request", PACELINE_RUN_PROFILE_REQUEST_FIELDS);

// The train loops shall save a checkpoint. Answered with RunCheckpointReply once they know, or will not.
#define PACELINE_RUN_CHECKPOINT_REQUEST_FIELDS(FIELD) FIELD(std::string, who, "") /* asks, for the log */
PACELINE_MESSAGE(RunCheckpointRequest, "run_checkpoint_request", PACELINE_RUN_CHECKPOINT_REQUEST_FIELDS);

#define PACELINE_RUN_CHECKPOINT_REPLY_FIELDS(FIELD) FIELD(std::string, problem, "") /* why they will not */
PACELINE_MESSAGE(RunCheckpointReply, "run_checkpoint_reply", PACELINE_RUN_CHECKPOINT_REPLY_FIELDS);

/// Every message, once: for what must hold for all of them.
using Catalogue =
    std::tuple<Attachment, StartProcess, EndProcess, OutputTaken, Dismissed, Leftovers, ProgressRequest, ProgressReply,
               StacksRequest, StacksReply, RunStacksRequest, ProfileRequest, ProfileReply, RunProfileRequest, Sample,
               Sampling, CollectivesRequest, CollectivesReply, NodeReady, NodeFailed, NodeLeaving, ProcessStarted,
               ProcessStartFailed, ProcessExited, ProcessSilent, Output, Welcome, ConnectData, DataConnection,
               DataClient, Assign, Stop, CheckpointCommitted, ReportsTaken, Joined, Heartbeat, Report,
               CheckpointUploaded, Finished, Failed, Validated, ProgressBar, StoreRequest, StoreReply,
               CheckpointsRequest, CheckpointsReply, Refused, StatusRequest, StatusReply, StopRun, AskForCheckpoint,
               CheckpointPlace, CheckpointDecided, RunCheckpointRequest, RunCheckpointReply>;

}  // namespace paceline::rpc
