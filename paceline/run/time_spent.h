// What the ranks of a run have spent their time on, as its driver keeps it in the run folder: time_spent.json.
//
// A worker's time is added when it has ended; that of workers that live is in the run's status. It is no part of a
// run's state: of a driver that is killed, the times of its last workers are lost. Nothing is synced.
#pragma once

#include <arrow/status.h>

#include <string>
#include <vector>

#include "paceline/core/progress.h"
#include "paceline/core/record.h"

namespace paceline::run {

// The ranks of one attempt, added up.
#define PACELINE_ATTEMPT_TIME_FIELDS(FIELD)        \
  FIELD(int64_t, attempt, 0)                       \
  FIELD(int64_t, workers, 0) /* that have ended */ \
  FIELD(TimeSpent, spent, {})
PACELINE_RECORD(AttemptTime, PACELINE_ATTEMPT_TIME_FIELDS);
using AttemptTimes = std::vector<AttemptTime>;

void add(const TimeSpent& more, TimeSpent& sum);
/// Adds what a worker of that attempt has spent.
void add(int64_t attempt, const TimeSpent& spent, AttemptTimes& times);

/// In the order of attempts; empty where nothing is kept that can be read.
AttemptTimes read_time_spent(const std::string& run_folder);
arrow::Status keep_time_spent(const std::string& run_folder, const AttemptTimes& times);

}  // namespace paceline::run
