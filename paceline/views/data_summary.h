// What the datasets of a run did: by operator, how fast, what is queued, who waits for whom, and which operator is the
// bottleneck. Of a live run this is of the last seconds, later of all the time that the data process has lived.
//
// Reads figures and samples of the data processes in the run folder. Thread-safe: no state.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/data_figures.h"
#include "paceline/core/node_sample.h"
#include "paceline/core/record.h"
#include "paceline/track/run_record.h"

namespace paceline::views {

// One operator of a dataset. What nobody has measured is null.
#define PACELINE_OPERATOR_SUMMARY_FIELDS(FIELD)                                                 \
  FIELD(std::string, name, "")                                                                  \
  FIELD(std::string, state, "") /* "running", "idle", "stuck" at a block, "blocked", "ended" */ \
  FIELD(MaybeNumber, rows_per_s, {})                                                            \
  FIELD(MaybeNumber, bytes_per_s, {})                                                           \
  FIELD(MaybeNumber, busy_threads, {}) /* without waiting */                                    \
  FIELD(OperatorFigures, figures, {})  /* since the data process began */
PACELINE_RECORD(OperatorSummary, PACELINE_OPERATOR_SUMMARY_FIELDS);

// One dataset as one data process reads it.
#define PACELINE_DATASET_SUMMARY_FIELDS(FIELD)                                                                       \
  FIELD(std::string, name, "")                                                                                       \
  FIELD(std::string, host, "")                       /* of the data process */                                       \
  FIELD(int64_t, process, 0)                         /* its number */                                                \
  FIELD(double, time, 0.0)                           /* when it has written this, in seconds since the Unix epoch */ \
  FIELD(std::string, state, "")                      /* "running", "idle" while nobody reads, "ended" */             \
  FIELD(std::vector<OperatorSummary>, operators, {}) /* first to last: each takes what the one before gives */       \
  FIELD(ReadAheadFigures, read_ahead, {})            /* the queue behind the last of them */                         \
  FIELD(std::vector<RankFigures>, ranks, {})                                                                         \
  FIELD(double, waited_share, 0.0)      /* of the time in which ranks read, of a live run of the last 10 s */        \
  FIELD(double, most_waited_share, 0.0) /* of all of that time, the rank that waited most */                         \
  FIELD(std::string, bottleneck, "")    /* name of an operator; "": data is not the limit */                         \
  FIELD(std::string, verdict, "")       /* a sentence on what bounds it */
PACELINE_RECORD(DatasetSummary, PACELINE_DATASET_SUMMARY_FIELDS);

/// The datasets that were read in the last attempt. `is_live`: its driver lives; `now` in seconds since the Unix epoch.
std::vector<DatasetSummary> dataset_summaries(const track::RunRecord& record, bool is_live, double now);

}  // namespace paceline::views
