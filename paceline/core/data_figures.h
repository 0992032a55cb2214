// What a data process has done so far, as it keeps it in the run folder (run_layout::data_figures) while it reads, and
// as the command line shows it. Counts since the process began; times in seconds, of all threads together. The names
// are those of Ray Data's metrics where it has the like.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/record.h"

namespace paceline {

// What one step of a dataset's plan has done.
#define PACELINE_OPERATOR_FIGURES_FIELDS(FIELD)                                                   \
  FIELD(std::string, name, "")                                                                    \
  FIELD(int64_t, num_task_outputs_generated, 0) /* blocks */                                      \
  FIELD(int64_t, num_row_inputs_received, 0)                                                      \
  FIELD(int64_t, rows_task_outputs_generated, 0)                                                  \
  FIELD(int64_t, bytes_task_outputs_generated, 0)                                                 \
  FIELD(int64_t, num_tasks_running, 0)                  /* blocks that are worked on now */       \
  FIELD(double, task_running_time_max, 0.0)             /* of these so far */                     \
  FIELD(double, block_generation_time, 0.0)             /* without waiting */                     \
  FIELD(double, block_generation_time_min, 0.0)         /* of one block */                        \
  FIELD(double, block_generation_time_max, 0.0)         /* likewise */                            \
  FIELD(double, block_generation_time_p50, 0.0)         /* likewise, rounded up by 9 % at most */ \
  FIELD(double, block_generation_time_p95, 0.0)         /* likewise */                            \
  FIELD(double, task_submission_backpressure_time, 0.0) /* waiting for a process of functions */
PACELINE_RECORD(OperatorFigures, PACELINE_OPERATOR_FIGURES_FIELDS);

// How many rows one thread would make of it if it did nothing else; 0 where nothing is known.
inline double rows_per_second(const OperatorFigures& step) {
  const double busy = step.block_generation_time;
  return busy > 0 ? static_cast<double>(step.rows_task_outputs_generated) / busy : 0;
}

// Whether a block takes so long that it is told: a function may hang.
inline bool is_stuck(const OperatorFigures& step) {
  return step.task_running_time_max >= 10;
}

// What one rank has got of a dataset.
#define PACELINE_RANK_FIGURES_FIELDS(FIELD)                         \
  FIELD(int64_t, rank, 0)                                           \
  FIELD(int64_t, batches, 0)                                        \
  FIELD(int64_t, rows, 0)                                           \
  FIELD(int64_t, bytes, 0)                                          \
  FIELD(double, waited_s, 0.0) /* for batches, in its train loop */ \
  FIELD(double, open_s, 0.0)   /* from the begin of an epoch to its end, all of them */
PACELINE_RECORD(RankFigures, PACELINE_RANK_FIGURES_FIELDS);

// What is read ahead of a dataset, for all who consume it.
#define PACELINE_READ_AHEAD_FIGURES_FIELDS(FIELD)                                            \
  FIELD(int64_t, num_external_outqueue_blocks, 0) /* in memory now */                        \
  FIELD(int64_t, num_external_outqueue_bytes, 0)  /* likewise */                             \
  FIELD(int64_t, windows_read, 0)                                                            \
  FIELD(int64_t, windows_taken, 0)                  /* by consumers; several take one */     \
  FIELD(double, task_output_backpressure_time, 0.0) /* waiting for consumers to make room */ \
  FIELD(double, input_wait_time, 0.0)               /* consumers, for windows */
PACELINE_RECORD(ReadAheadFigures, PACELINE_READ_AHEAD_FIGURES_FIELDS);

#define PACELINE_DATASET_FIGURES_FIELDS(FIELD)                       \
  FIELD(std::string, name, "")                                       \
  FIELD(std::vector<OperatorFigures>, steps, {}) /* first to last */ \
  FIELD(ReadAheadFigures, read_ahead, {})                            \
  FIELD(std::vector<RankFigures>, ranks, {}) /* by rank */
PACELINE_RECORD(DatasetFigures, PACELINE_DATASET_FIGURES_FIELDS);

#define PACELINE_DATA_FIGURES_FIELDS(FIELD) \
  FIELD(std::string, host, "")              \
  FIELD(int64_t, pid, 0)                    \
  FIELD(double, time, 0.0)                  \
  FIELD(std::vector<DatasetFigures>, datasets, {})
PACELINE_RECORD(DataFigures, PACELINE_DATA_FIGURES_FIELDS);

}  // namespace paceline
