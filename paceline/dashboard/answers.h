// What the interface takes and gives beside the views that the command line has too. Plain data.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/run/hang_evidence.h"
#include "paceline/run/kept_profiles.h"
#include "paceline/stacks/stack.h"
#include "paceline/views/checkpoint_list.h"
#include "paceline/views/data_summary.h"
#include "paceline/views/log_streams.h"
#include "paceline/views/node_samples.h"
#include "paceline/views/run_configuration.h"
#include "paceline/views/run_list.h"

namespace paceline::dashboard {

// POST /api/v1/session takes it.
#define PACELINE_CODE_FIELDS(FIELD) FIELD(std::string, code, "")
PACELINE_RECORD(CodeRequest, PACELINE_CODE_FIELDS);

// Who is asked, and whether it does what changes runs.
#define PACELINE_SESSION_ANSWER_FIELDS(FIELD)             \
  FIELD(std::string, version, "")                         \
  FIELD(std::string, host, "") /* whose runs these are */ \
  FIELD(std::string, user, "")                            \
  FIELD(bool, read_only, false)                           \
  FIELD(std::vector<std::string>, storage_paths, {}) /* only runs in these; empty: all */
PACELINE_RECORD(SessionAnswer, PACELINE_SESSION_ANSWER_FIELDS);

#define PACELINE_RUNS_ANSWER_FIELDS(FIELD)       \
  FIELD(std::vector<views::ListedRun>, runs, {}) \
  FIELD(std::string, next, "") /* `cursor` of the next page; "" for none */
PACELINE_RECORD(RunsAnswer, PACELINE_RUNS_ANSWER_FIELDS);

// Numbers that are not finite are texts, therefore of any type (views/metric_curves.h).
#define PACELINE_CURVE_ANSWER_FIELDS(FIELD) \
  FIELD(std::vector<int64_t>, report, {})   \
  FIELD(std::vector<Json>, time, {})        \
  FIELD(std::vector<Json>, min, {})         \
  FIELD(std::vector<Json>, max, {})         \
  FIELD(std::vector<Json>, last, {})
PACELINE_RECORD(CurveAnswer, PACELINE_CURVE_ANSWER_FIELDS);
using CurveAnswers = std::map<std::string, CurveAnswer>;

#define PACELINE_METRICS_ANSWER_FIELDS(FIELD)                            \
  FIELD(std::vector<std::string>, names, {}) /* of all that there are */ \
  FIELD(CurveAnswers, series, {})            /* of those asked for */
PACELINE_RECORD(MetricsAnswer, PACELINE_METRICS_ANSWER_FIELDS);

#define PACELINE_NODES_ANSWER_FIELDS(FIELD)         \
  FIELD(std::vector<views::NodeSummary>, nodes, {}) \
  FIELD(std::vector<std::string>, data_processes, {}) /* numbers of those that have samples */
PACELINE_RECORD(NodesAnswer, PACELINE_NODES_ANSWER_FIELDS);

#define PACELINE_NODES_OF_RUN_FIELDS(FIELD)  \
  FIELD(std::string, id, "") /* the run's */ \
  FIELD(std::string, name, "")               \
  FIELD(std::vector<views::NodeSummary>, nodes, {})
PACELINE_RECORD(NodesOfRun, PACELINE_NODES_OF_RUN_FIELDS);
#define PACELINE_ALL_NODES_ANSWER_FIELDS(FIELD) FIELD(std::vector<NodesOfRun>, runs, {})
PACELINE_RECORD(AllNodesAnswer, PACELINE_ALL_NODES_ANSWER_FIELDS);

// Null where there was no number.
#define PACELINE_SAMPLE_CURVE_ANSWER_FIELDS(FIELD) \
  FIELD(std::vector<MaybeNumber>, mean, {})        \
  FIELD(std::vector<MaybeNumber>, min, {})         \
  FIELD(std::vector<MaybeNumber>, max, {})
PACELINE_RECORD(SampleCurveAnswer, PACELINE_SAMPLE_CURVE_ANSWER_FIELDS);
using SampleCurveAnswers = std::map<std::string, SampleCurveAnswer>;

#define PACELINE_SAMPLES_ANSWER_FIELDS(FIELD)                                                \
  FIELD(double, first, 0.0) /* of the samples that are kept; 0: none */                      \
  FIELD(double, last, 0.0)                                                                   \
  FIELD(double, seconds, 1.0)                /* that a point stands for */                   \
  FIELD(std::vector<double>, time, {})       /* at which each point begins */                \
  FIELD(SampleCurveAnswers, series, {})      /* of those asked for; lists as long as that */ \
  FIELD(std::vector<std::string>, names, {}) /* of all numbers in this time */               \
  FIELD(Json, about, Json::object())         /* what is told of GPUs and processes, by UUID and id */
PACELINE_RECORD(SamplesAnswer, PACELINE_SAMPLES_ANSWER_FIELDS);

#define PACELINE_DATA_ANSWER_FIELDS(FIELD) FIELD(std::vector<views::DatasetSummary>, datasets, {}) /* by name */
PACELINE_RECORD(DataAnswer, PACELINE_DATA_ANSWER_FIELDS);

#define PACELINE_DATA_OF_RUN_FIELDS(FIELD)                                                    \
  FIELD(std::string, id, "") /* the run's */                                                  \
  FIELD(std::string, name, "")                                                                \
  FIELD(std::string, state, "")                                                               \
  FIELD(views::DriverState, driver, views::DriverState::none) /* null when the run is over */ \
  FIELD(double, since, 0.0)                                                                   \
  FIELD(std::vector<views::DatasetSummary>, datasets, {})
PACELINE_RECORD(DataOfRun, PACELINE_DATA_OF_RUN_FIELDS);
#define PACELINE_ALL_DATA_ANSWER_FIELDS(FIELD) FIELD(std::vector<DataOfRun>, runs, {}) /* the last opened first */
PACELINE_RECORD(AllDataAnswer, PACELINE_ALL_DATA_ANSWER_FIELDS);

#define PACELINE_LOGS_ANSWER_FIELDS(FIELD) FIELD(std::vector<views::LogStream>, streams, {})
PACELINE_RECORD(LogsAnswer, PACELINE_LOGS_ANSWER_FIELDS);

#define PACELINE_EVENTS_ANSWER_FIELDS(FIELD)         \
  FIELD(std::vector<track::EventRecord>, events, {}) \
  FIELD(int64_t, next, 0) /* `after` of what comes then */
PACELINE_RECORD(EventsAnswer, PACELINE_EVENTS_ANSWER_FIELDS);

#define PACELINE_CHECKPOINTS_ANSWER_FIELDS(FIELD) FIELD(std::vector<views::ListedCheckpoint>, checkpoints, {})
PACELINE_RECORD(CheckpointsAnswer, PACELINE_CHECKPOINTS_ANSWER_FIELDS);

#define PACELINE_HANGS_ANSWER_FIELDS(FIELD) FIELD(std::vector<run::FoundHang>, hangs, {}) /* the first first */
PACELINE_RECORD(HangsAnswer, PACELINE_HANGS_ANSWER_FIELDS);

#define PACELINE_PROFILES_ANSWER_FIELDS(FIELD) FIELD(std::vector<run::KeptProfile>, profiles, {}) /* the last first */
PACELINE_RECORD(ProfilesAnswer, PACELINE_PROFILES_ANSWER_FIELDS);

inline constexpr std::string_view kStop = "stop", kStacks = "stacks", kProfile = "profile";
inline constexpr std::string_view kCheckpointNow = "checkpoint_now";
inline constexpr std::array kActions = {kStop, kStacks, kProfile, kCheckpointNow};

// POST /api/v1/runs/{id}/actions takes it.
#define PACELINE_ACTION_REQUEST_FIELDS(FIELD)                                                                 \
  FIELD(std::string, action, "")             /* one of kActions */                                            \
  FIELD(int64_t, rank, -1)                   /* of "stacks", "profile": one rank; -1: all */                  \
  FIELD(std::string, kind, rpc::kCpuProfile) /* of "profile": one of rpc::kProfileKinds */                    \
  FIELD(int64_t, seconds, 0) /* of "profile": sample so long, from 1 to 60; 0: 5, or with `steps` up to 60 */ \
  FIELD(int64_t, steps, 0)   /* of a "timeline": until so many have ended, within `seconds`; 0: for `seconds` */
PACELINE_RECORD(ActionRequest, PACELINE_ACTION_REQUEST_FIELDS);

using AllStacks = std::vector<stacks::WorkerStacks>;
#define PACELINE_ACTION_ANSWER_FIELDS(FIELD)                                                      \
  FIELD(std::string, action, "")                                                                  \
  FIELD(Json, status, nullptr)  /* of "stop": the run's after that, as its controller tells it */ \
  FIELD(AllStacks, workers, {}) /* of "stacks" */                                                 \
  FIELD(std::optional<run::KeptProfile>, profile, {}) /* of "profile"; without a name: not kept */
PACELINE_RECORD(ActionAnswer, PACELINE_ACTION_ANSWER_FIELDS);

}  // namespace paceline::dashboard
