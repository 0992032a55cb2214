// What a data process has done so far, as it keeps it in the run folder (run_layout::data_figures) while it reads, and
// as the command line shows it. Times in seconds where the name says so; counts since the process began.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/record.h"

namespace paceline {

// What one step of a dataset's plan has done.
#define PACELINE_OPERATOR_FIGURES_FIELDS(FIELD)               \
  FIELD(std::string, name, "")                                \
  FIELD(int64_t, blocks, 0)                                   \
  FIELD(int64_t, rows_in, 0)                                  \
  FIELD(int64_t, rows_out, 0)                                 \
  FIELD(int64_t, bytes_out, 0)                                \
  FIELD(int64_t, busy_ns, 0)    /* of all threads together */ \
  FIELD(int64_t, longest_ns, 0) /* for one block */
PACELINE_RECORD(OperatorFigures, PACELINE_OPERATOR_FIGURES_FIELDS);

// What one rank has got of a dataset.
#define PACELINE_RANK_FIGURES_FIELDS(FIELD)                         \
  FIELD(int64_t, rank, 0)                                           \
  FIELD(int64_t, batches, 0)                                        \
  FIELD(int64_t, rows, 0)                                           \
  FIELD(int64_t, bytes, 0)                                          \
  FIELD(double, waited_s, 0.0) /* for batches, in its train loop */ \
  FIELD(double, open_s, 0.0)   /* from the begin of an epoch to its end, all of them */
PACELINE_RECORD(RankFigures, PACELINE_RANK_FIGURES_FIELDS);

#define PACELINE_DATASET_FIGURES_FIELDS(FIELD)                       \
  FIELD(std::string, name, "")                                       \
  FIELD(std::vector<OperatorFigures>, steps, {}) /* first to last */ \
  FIELD(std::vector<RankFigures>, ranks, {})     /* by rank */
PACELINE_RECORD(DatasetFigures, PACELINE_DATASET_FIGURES_FIELDS);

#define PACELINE_DATA_FIGURES_FIELDS(FIELD) \
  FIELD(std::string, host, "")              \
  FIELD(int64_t, pid, 0)                    \
  FIELD(double, time, 0.0)                  \
  FIELD(std::vector<DatasetFigures>, datasets, {})
PACELINE_RECORD(DataFigures, PACELINE_DATA_FIGURES_FIELDS);

}  // namespace paceline
