// RunRecord: what the run store keeps of a run, and what the command line shows of one. Plain data.
//
// Times are seconds since the Unix epoch.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "paceline/core/config/checkpoint_config.h"
#include "paceline/core/ending.h"
#include "paceline/core/published_checkpoint.h"
#include "paceline/core/record.h"
#include "paceline/track/metrics_history.h"
#include "paceline/track/series.h"

namespace paceline::track {

// One attempt of a run.
#define PACELINE_ATTEMPT_RECORD_FIELDS(FIELD) \
  FIELD(int64_t, attempt, 0)                  \
  FIELD(int64_t, world_size, 0)               \
  FIELD(double, start, 0.0)                   \
  FIELD(double, end, 0.0)                     \
  FIELD(std::string, failure, "") /* why it ended, in one line; "" when it did not fail */
PACELINE_RECORD(AttemptRecord, PACELINE_ATTEMPT_RECORD_FIELDS);

// One worker of a run.
#define PACELINE_WORKER_RECORD_FIELDS(FIELD)                  \
  FIELD(int64_t, worker, 0) /* its id, which names its log */ \
  FIELD(int64_t, attempt, 0)                                  \
  FIELD(int64_t, rank, -1) /* -1 when it never had one */     \
  FIELD(std::string, node, "")                                \
  FIELD(int64_t, pid, 0)                                      \
  FIELD(std::string, stage, "") /* how far it came */
PACELINE_RECORD(WorkerRecord, PACELINE_WORKER_RECORD_FIELDS);

// An event of the journal.
#define PACELINE_EVENT_RECORD_FIELDS(FIELD)  \
  FIELD(int64_t, sequence, 0) /* its line */ \
  FIELD(double, time, 0.0)                   \
  FIELD(std::string, event, "")              \
  FIELD(nlohmann::json, details, nlohmann::json::object()) /* its fields but the bulky ones */
PACELINE_RECORD(EventRecord, PACELINE_EVENT_RECORD_FIELDS);

// One metric of a run.
#define PACELINE_METRIC_RECORD_FIELDS(FIELD)                  \
  FIELD(nlohmann::json, last, nullptr) /* of any type */      \
  FIELD(int64_t, report, 0)            /* in which it came */ \
  FIELD(double, time, 0.0)             /* when it came */     \
  FIELD(Series, series, {})            /* empty for what is no number */
PACELINE_RECORD(MetricRecord, PACELINE_METRIC_RECORD_FIELDS);

// One line of `paceline list`.
#define PACELINE_RUN_ROW_FIELDS(FIELD)                                                            \
  FIELD(std::string, name, "")                                                                    \
  FIELD(std::string, path, "")                                                                    \
  FIELD(std::string, state, "") /* a FinalState, or where the run stands */                       \
  FIELD(double, since, 0.0)                                                                       \
  FIELD(double, created, 0.0)  /* when the run was first opened: its identity, beside the path */ \
  FIELD(double, opened, 0.0)   /* when its last driver took it */                                 \
  FIELD(std::string, host, "") /* of the last driver */                                           \
  FIELD(int64_t, pid, 0)       /* of the last driver */                                           \
  FIELD(int64_t, attempt, 0)                                                                      \
  FIELD(int64_t, world_size, 0)                                                                   \
  FIELD(int64_t, report, 0)                                /* the last whose metrics are shown */ \
  FIELD(nlohmann::json, metrics, nlohmann::json::object()) /* of that report */                   \
  FIELD(std::string, error, "")                                                                   \
  FIELD(int64_t, journal_bytes, 0) /* how much of the journal is told here */                     \
  FIELD(int64_t, history_bytes, 0) /* how much of the history is told here */
PACELINE_RECORD(RunRow, PACELINE_RUN_ROW_FIELDS);

// What the last controller said of the run's end, or would say now. `stop_reason` "": nobody has stopped it.
// `worker_errors`: of the last attempt's workers by rank; what concerns the whole group is under -1. `return_value`: of
// rank 0's train loop.
using ErrorsByRank = std::map<int64_t, std::string>;
#define PACELINE_RUN_END_FIELDS(FIELD)                \
  FIELD(StopCause, stop_cause, StopCause::unknown)    \
  FIELD(std::string, stop_reason, "")                 \
  FIELD(std::optional<FailureKind>, failure_kind, {}) \
  FIELD(ErrorsByRank, worker_errors, {})              \
  FIELD(nlohmann::json, return_value, nullptr)
PACELINE_RECORD(RunEnd, PACELINE_RUN_END_FIELDS);

/// A run keeps at most this many events here: the latest.
inline constexpr size_t kMostEvents = 1000;

/// The run store does not keep `end` and `checkpoint_config`: only who reads the run's folder has them.
struct RunRecord {
  RunRow run;
  std::vector<AttemptRecord> attempts;
  std::map<int64_t, WorkerRecord> workers;  // by id
  PublishedCheckpoints checkpoints;
  std::map<std::string, MetricRecord> metrics;
  std::vector<EventRecord> events;
  RunEnd end;
  CheckpointConfig checkpoint_config;

  bool operator==(const RunRecord&) const = default;
};

/// Calls `visit` with each metric of a report that is no object: nested names joined by '/', as users see them.
void visit_metrics(const nlohmann::json& metrics,
                   const std::function<void(const std::string& name, const nlohmann::json& value)>& visit);

/// Takes a line of the history into a run's metrics: those that users are shown, nested names joined by '/'.
void add_metrics(const HistoryRow& row, RunRecord& record);

/// Whether the run has reached its end.
bool is_over(const RunRow& run);

}  // namespace paceline::track
