#include "paceline/train/result.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "paceline/checkpoint/retention.h"
#include "paceline/checkpoint/store.h"
#include "paceline/core/metric_values.h"
#include "paceline/core/run_layout.h"
#include "paceline/run/journal.h"
#include "paceline/run/readable_folder.h"
#include "paceline/run/reader.h"
#include "paceline/storage/storage.h"
#include "paceline/track/metrics_history.h"

namespace paceline {
namespace {

void read_checkpoints(const storage::Location& path, const track::RunRecord& record, Result& result) {
  const auto store = value_or_throw(checkpoint::Store::at(path));
  const auto listed = value_or_throw(store.list());
  if (listed.empty()) return;
  result.checkpoint = CheckpointAccess::published(listed.back().path);
  PublishedCheckpoints published(listed.begin(), listed.end());
  // What a validation has found is in the journal: a published checkpoint does not change.
  for (auto& one : published) {
    const auto kept = std::ranges::find(record.checkpoints, one.report, &PublishedCheckpoint::report);
    if (kept != record.checkpoints.end()) one.metrics = kept->metrics;
  }
  if (published.back().report == record.run.report) result.metrics = Metrics(published.back().metrics);
  for (const auto& one : checkpoint::worst_first(std::move(published), record.checkpoint_config)) {
    result.best_checkpoints.emplace_back(CheckpointAccess::published(store.path_of(one.name)), Metrics(one.metrics));
  }
}

}  // namespace

int Result::exit_code() const {
  const std::optional<FinalState> ended = final_state_of(state);
  if (ended == FinalState::finished) return EXIT_SUCCESS;
  if (ended == FinalState::errored && is_of_nodes(failure_kind)) return kTryAgain;
  if (ended != FinalState::aborted) return EXIT_FAILURE;
  if (stop_cause == StopCause::interrupt) return 128 + SIGINT;
  return stop_cause == StopCause::terminated ? 128 + SIGTERM : EXIT_FAILURE;
}

Result Result::from_path(const std::string& path) {
  Result result;
  result.location = value_or_throw(storage::resolve_here(path));
  result.path = result.location.text();
  if (!result.location.is_uri() && !std::filesystem::is_directory(result.path)) {
    throw StorageError("Experiment folder " + result.path +
                       " doesn't exist; a run is in RunConfig.storage_path/name, which fit() gives as Result.path");
  }
  const auto records = value_or_throw(run::ReadableFolder::open(result.location));
  if (!std::filesystem::exists(run::journal_path(records.folder()))) {
    throw StorageError(result.path + " is not the folder of a run: it has no " + run_layout::kJournal +
                       ", which every run writes; give the run's own folder, RunConfig.storage_path/name");
  }
  const track::RunRecord record = value_or_throw(run::read_run_folder(records.folder()));
  result.state = record.run.state;
  result.metrics = Metrics(record.run.metrics);
  if (!record.run.error.empty()) result.error = record.run.error;
  if (!record.end.stop_reason.empty()) {
    result.stop_reason = record.end.stop_reason;
    result.stop_cause = record.end.stop_cause;
  }
  result.failure_kind = record.end.failure_kind;
  result.worker_errors = record.end.worker_errors;
  result.return_value = record.end.return_value;
  read_checkpoints(result.location, record, result);
  return result;
}

std::shared_ptr<arrow::Table> Result::metrics_history() const {
  const auto records = value_or_throw(run::ReadableFolder::open(location));
  return value_or_throw(track::history_table(value_or_throw(track::read_history(records.folder()))));
}

std::vector<Metrics> Result::reported_metrics() const {
  const auto records = value_or_throw(run::ReadableFolder::open(location));
  const track::RunRecord record = value_or_throw(run::read_run_folder(records.folder()));
  std::vector<Metrics> reports;
  for (const track::HistoryRow& row : value_or_throw(track::read_history(records.folder()))) {
    if (row.rank != 0) continue;
    const auto kept = std::ranges::find(record.checkpoints, row.report, &PublishedCheckpoint::report);
    const bool validated = kept != record.checkpoints.end() && kept->status == CheckpointStatus::validated;
    reports.emplace_back(validated ? kept->metrics : row.reduced.is_null() ? row.metrics : row.reduced);
  }
  return reports;
}

Checkpoint Result::get_best_checkpoint(const std::string& metric, const std::string& mode) const {
  std::vector<Metrics> kept;
  for (const auto& one : best_checkpoints) kept.push_back(one.second);
  return best_checkpoints[train::index_of_best(kept, metric, mode, path)].first;
}

size_t train::index_of_best(const std::vector<Metrics>& kept, const std::string& metric, const std::string& mode,
                            const std::string& path) {
  static const Constraint kModes = one_of({"max", "min"});
  check_field("Result.get_best_checkpoint", "mode", mode, kModes);
  std::optional<size_t> best;
  double best_score = 0;
  bool has_it = false;
  std::set<std::string> names;
  for (size_t i = 0; i < kept.size(); ++i) {
    for (const auto& [name, value] : kept[i].json().items()) {
      if (name != kKeysMember) names.insert(name);
    }
    const Json* value = kept[i].find(metric);
    if (value == nullptr) continue;
    has_it = true;
    const double score = (mode == "max" ? 1 : -1) * score_of(*value).value_or(std::nan(""));
    if (std::isnan(score) || (best && score <= best_score)) continue;
    best = i;
    best_score = score;
  }
  if (best) return *best;
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  throw ConfigError("Invalid metric name \"" + metric + "\": no kept checkpoint of " + path + " has it" +
                    (has_it ? " as a number other than NaN" : "") +
                    "; there is: " + (known.empty() ? "nothing" : known));
}

}  // namespace paceline
