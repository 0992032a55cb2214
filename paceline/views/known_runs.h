// The runs that the run store knows, with what has become of their drivers and folders since.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <string>
#include <vector>

#include "paceline/track/run_store.h"

namespace paceline::views {

/// What has become of the driver of a run that is not over.
enum class DriverState {
  none,       // the run is over
  alive,      // its process lives on this machine
  gone,       // its process has ended without ending the run
  elsewhere,  // it is, or was, on another machine
};
NLOHMANN_JSON_SERIALIZE_ENUM(DriverState, {{DriverState::none, nullptr},
                                           {DriverState::alive, "alive"},
                                           {DriverState::gone, "gone"},
                                           {DriverState::elsewhere, "elsewhere"}})

/// By the driver's process; one that started after the run was opened is another that got its id.
DriverState driver_state(const track::RunRow& run);

struct KnownRun {
  track::RunRow run;
  DriverState driver = DriverState::none;
  bool gone = false;    // the run's folder was deleted
  std::string metrics;  // the last, as they are shown

  /// "running", "driver died", "deleted", …
  std::string state_text() const;
};

/// What is known of the run in this folder: from the folder, or from the run store when the folder is gone.
arrow::Result<track::RunRecord> recorded_run(const std::string& folder);

/// Calls `visit` with each run in the run store, the last opened first, until it gives false; none where there is no
/// store yet. What a driver that died could no longer write is read from the run's folder and added. With Metrics::text
/// no RunRow needs to have metrics.
arrow::Status visit_known_runs(track::RunStore::Metrics wanted, const std::function<bool(KnownRun known)>& visit);
/// All of them.
arrow::Result<std::vector<KnownRun>> known_runs();
/// The same of one run.
KnownRun with_fate(track::RunRow run);
/// Name and path of each run in the store, nothing else; the last opened first.
arrow::Result<std::vector<track::RunRow>> stored_names();

}  // namespace paceline::views
