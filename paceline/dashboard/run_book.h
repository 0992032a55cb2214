// RunBook: what the server knows of runs, by their ids: read when it is asked for, and kept up to date from there on.
//
// A run's record comes from the run store where that tells all that its folder holds, which costs milliseconds however
// long the run was; else from the folder, of which then only what is new is read. The runs that were asked for last
// stay in memory. Thread-safe: requests for one run wait for each other.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "paceline/run/reader.h"
#include "paceline/views/metric_curves.h"
#include "paceline/views/run_list.h"

namespace paceline::dashboard {

class RunBook {
 public:
  /// Only runs below one of these storage paths; all of them without any.
  explicit RunBook(std::vector<std::string> storage_paths = {}) : storage_paths_(std::move(storage_paths)) {}

  /// A page of the list; `selection.storage_paths` are set here.
  arrow::Result<views::RunPage> list(views::RunSelection selection) const;

  /// The folder of a run on this machine. KeyError for an id that no run here has.
  arrow::Result<std::string> folder_of(const std::string& id);

  /// Calls `use` with the run's record as it is now. Errors as folder_of() and run::RunReader::read().
  arrow::Status with_record(const std::string& id, const std::function<arrow::Status(const track::RunRecord&)>& use);
  /// The same with its metrics.
  arrow::Status with_curves(const std::string& id, const std::function<arrow::Status(const views::MetricCurves&)>& use);

  const std::vector<std::string>& storage_paths() const { return storage_paths_; }

 private:
  static constexpr size_t kMostOpen = 16;

  struct OpenRun {
    explicit OpenRun(std::string run_folder) : folder(std::move(run_folder)) {}
    std::mutex mutex;
    std::string folder;
    std::unique_ptr<track::RunRecord> stored;
    std::unique_ptr<run::RunReader> reader;
    std::unique_ptr<views::MetricCurves> curves;
    double copied = 0;  // when a copy of a run elsewhere was brought up to date
  };
  arrow::Result<std::shared_ptr<OpenRun>> open(const std::string& id);
  static arrow::Result<const track::RunRecord*> current_record(OpenRun& run);

  std::vector<std::string> storage_paths_;
  std::mutex mutex_;
  std::map<std::string, std::string> folders_;                             // by id
  std::list<std::pair<std::string, std::shared_ptr<OpenRun>>> open_runs_;  // the last used first
};

}  // namespace paceline::dashboard
