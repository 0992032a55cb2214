// What `paceline show` and the dashboard tell of a run: read from the run folder, so that it works while a run is live
// and after; from the run store when the folder is gone. A live run's controller adds where its workers are.
#pragma once

#include <arrow/result.h>

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/data_figures.h"
#include "paceline/track/run_record.h"

namespace paceline::views {

// One attempt as the commands show it.
#define PACELINE_ATTEMPT_SUMMARY_FIELDS(FIELD)                                                      \
  FIELD(int64_t, attempt, 0)                                                                        \
  FIELD(int64_t, world_size, 0)                                                                     \
  FIELD(double, start, 0.0)                                                                         \
  FIELD(std::optional<double>, end, {}) /* null: it goes on, or its driver died and nobody knows */ \
  FIELD(std::string, failure, "")       /* why it ended, in one line; "" when it did not fail */
PACELINE_RECORD(AttemptSummary, PACELINE_ATTEMPT_SUMMARY_FIELDS);

using AttemptSummaries = std::vector<AttemptSummary>;

// What the ranks' time went into, of all attempts: seconds times ranks (core/progress.h, TimeSpent).
#define PACELINE_GOODPUT_FIELDS(FIELD)                                                     \
  FIELD(double, compute_s, 0.0)                                                            \
  FIELD(double, data_s, 0.0)                                                               \
  FIELD(double, collectives_s, 0.0)                                                        \
  FIELD(double, checkpoint_s, 0.0)                                                         \
  FIELD(double, starting_s, 0.0) /* from the run's beginning to its train loops */         \
  FIELD(double, restart_s, 0.0)  /* between one attempt and the next, and starting that */ \
  FIELD(double, other_s, 0.0)                                                              \
  FIELD(double, share, 0.0) /* of computing; 0 where nothing is known */
PACELINE_RECORD(Goodput, PACELINE_GOODPUT_FIELDS);

// One run as the commands show it. Times are seconds since the Unix epoch.
#define PACELINE_RUN_SUMMARY_FIELDS(FIELD)                                                                  \
  FIELD(std::string, id, "") /* run_id() */                                                                 \
  FIELD(std::string, name, "")                                                                              \
  FIELD(std::string, path, "")     /* folder on this machine */                                             \
  FIELD(std::string, location, "") /* URI of a run in an object store, else the same as path */             \
  FIELD(std::string, state, "")                                                                             \
  FIELD(bool, live, false)       /* a controller answers */                                                 \
  FIELD(bool, gone, false)       /* the folder was deleted */                                               \
  FIELD(std::string, remark, "") /* what is to be said of the driver of a run that is not over */           \
  FIELD(double, since, 0.0)                                                                                 \
  FIELD(double, created, 0.0)                                                                               \
  FIELD(std::string, host, "")                                                                              \
  FIELD(int64_t, pid, 0)                                                                                    \
  FIELD(AttemptSummaries, attempts, {})                                                                     \
  FIELD(PublishedCheckpoints, checkpoints, {})                                                              \
  FIELD(int64_t, report, 0)            /* the last that rank 0 made */                                      \
  FIELD(Json, metrics, Json::object()) /* of that report */                                                 \
  /* a live controller's account (controller/status.h), else those of the last attempt */                   \
  FIELD(Json, workers, Json::array())                                                                       \
  FIELD(Goodput, goodput, {})                                                                               \
  FIELD(std::vector<DatasetFigures>, datasets, {}) /* as its data process has them */                       \
  FIELD(std::vector<std::string>, hangs, {})       /* when it hung: names of run/hang_evidence.h */         \
  FIELD(std::vector<std::string>, waits_for, {})   /* who has to catch up in a live run: a sentence each */ \
  FIELD(std::string, error, "")
PACELINE_RECORD(RunSummary, PACELINE_RUN_SUMMARY_FIELDS);

RunSummary summary_of(const track::RunRecord& record);

/// Takes over what the live run's controller says of itself.
void add_live_status(const Json& status, RunSummary& run);

/// Its driver has died: so have its workers, whatever it said of them last.
void note_dead_driver(RunSummary& run);

}  // namespace paceline::views
