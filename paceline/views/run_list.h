// The list of runs, as `paceline list --json` and the dashboard give it.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <string>
#include <vector>

#include "paceline/core/record.h"
#include "paceline/views/known_runs.h"

namespace paceline::views {

// One run of the list. Times are seconds since the Unix epoch.
#define PACELINE_LISTED_RUN_FIELDS(FIELD)                                                                    \
  FIELD(std::string, id, "") /* run_id() */                                                                  \
  FIELD(std::string, name, "")                                                                               \
  FIELD(std::string, path, "")                  /* its folder on this machine */                             \
  FIELD(std::string, location, "")              /* URI of a run in an object store, else the same as path */ \
  FIELD(std::string, state, "")                 /* a FinalState, or where the run stands */                  \
  FIELD(DriverState, driver, DriverState::none) /* null when the run is over */                              \
  FIELD(bool, gone, false)                      /* its folder was deleted */                                 \
  FIELD(double, since, 0.0)                     /* it is in this state */                                    \
  FIELD(double, created, 0.0)                                                                                \
  FIELD(double, opened, 0.0)   /* by its last driver */                                                      \
  FIELD(std::string, host, "") /* of that driver */                                                          \
  FIELD(int64_t, pid, 0)       /* of that driver */                                                          \
  FIELD(int64_t, attempt, 0)                                                                                 \
  FIELD(int64_t, world_size, 0)                                                                              \
  FIELD(int64_t, report, 0) /* the last whose metrics are shown */                                           \
  FIELD(Json, metrics, Json::object())                                                                       \
  FIELD(int64_t, hangs, 0) /* how often it hung (run/hang_evidence.h) */                                     \
  FIELD(std::string, error, "")
PACELINE_RECORD(ListedRun, PACELINE_LISTED_RUN_FIELDS);

ListedRun listed(const KnownRun& known);

/// The words that a run's state can be, as lists show it: "driver died" and "deleted" among them.
std::vector<std::string> known_states();
/// "" for one of these; else what is wrong with it.
std::string problem_of_state(const std::string& state);
/// Whether the run is in that state, as the journal or as lists have it; "" is any.
bool is_in_state(const KnownRun& known, const std::string& state);

/// Which runs to list, and in which order.
struct RunSelection {
  /// "": all.
  std::string state;
  /// Part of a name or a path, in letters of any case; "": all.
  std::string text;
  /// A field of a run that has an order, with '-' before it for the largest first; "": the last opened first.
  std::string sort;
  /// At most so many.
  size_t limit = 100;
  /// The id of the last run of the page before.
  std::string after;
  /// Absolute paths or URIs: only runs below one of them; empty: all.
  std::vector<std::string> storage_paths;
};

struct RunPage {
  std::vector<ListedRun> runs;
  /// `after` of the next page; "" for none.
  std::string next;
};

/// Where runs come from: visit_known_runs(), or a test.
using VisitRuns = std::function<arrow::Status(const std::function<bool(KnownRun known)>&)>;

/// One page. Invalid for a state or an order that there is not, and for an `after` that is no run of this selection
/// any more.
arrow::Result<RunPage> list_runs(const RunSelection& selection, const VisitRuns& visit);

}  // namespace paceline::views
