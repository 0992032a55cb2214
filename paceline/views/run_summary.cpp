#include "paceline/views/run_summary.h"

#include <optional>
#include <utility>

#include "paceline/run/data_figures.h"
#include "paceline/run/working_folder.h"
#include "paceline/track/run_id.h"

namespace paceline::views {

RunSummary summary_of(const track::RunRecord& record) {
  const track::RunRow& run = record.run;
  RunSummary summary{.id = track::run_id(run.path),
                     .name = run.name,
                     .path = run.path,
                     .location = run::run_location(run.path).text(),
                     .state = run.state,
                     .since = run.since,
                     .created = run.created,
                     .host = run.host,
                     .pid = run.pid,
                     .checkpoints = record.checkpoints,
                     .report = run.report,
                     .metrics = run.metrics,
                     .error = run.error};
  for (const track::AttemptRecord& attempt : record.attempts) {
    const bool open = !track::is_over(run) && attempt.attempt == run.attempt && attempt.failure.empty();
    summary.attempts.push_back({.attempt = attempt.attempt,
                                .world_size = attempt.world_size,
                                .start = attempt.start,
                                .end = open ? std::nullopt : std::optional(attempt.end),
                                .failure = attempt.failure});
  }
  // Each process counts from its own beginning.
  if (const auto processes = run::read_data_figures(run.path); !processes.empty()) {
    summary.datasets = processes.back().datasets;
  }
  for (const auto& [id, worker] : record.workers) {
    if (worker.attempt != run.attempt) continue;
    Json json = worker;
    if (worker.rank < 0) json["rank"] = nullptr;
    summary.workers.push_back(std::move(json));
  }
  return summary;
}

void add_live_status(const Json& status, RunSummary& run) {
  run.live = true;
  run.state = status.value("state", run.state);
  run.since = status.value("since", run.since);
  run.waits_for = status.value("waits_for", run.waits_for);
  run.workers = status.value("workers", run.workers);
  if (status.value("last_report", int64_t{0}) < run.report) return;
  run.report = status.value("last_report", run.report);
  run.metrics = status.value("metrics", run.metrics);
}

void note_dead_driver(RunSummary& run) {
  for (Json& worker : run.workers) {
    const std::string stage = worker.value("stage", "");
    if (stage == "gone" || stage == "finished") continue;
    worker["last_stage"] = stage;
    worker["stage"] = "gone";
  }
}

}  // namespace paceline::views
