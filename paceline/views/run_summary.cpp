#include "paceline/views/run_summary.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "paceline/run/data_figures.h"
#include "paceline/run/hang_evidence.h"
#include "paceline/run/time_spent.h"
#include "paceline/run/working_folder.h"
#include "paceline/track/run_id.h"

namespace paceline::views {

namespace {

// `is_first`: of the first attempt, which is no restart.
void add(const TimeSpent& spent, bool is_first, Goodput& goodput) {
  goodput.compute_s += spent.compute_s;
  goodput.data_s += spent.data_s;
  goodput.collectives_s += spent.collectives_s;
  goodput.checkpoint_s += spent.checkpoint_s;
  (is_first ? goodput.starting_s : goodput.restart_s) += spent.starting_s;
  goodput.other_s += spent.other_s;
  const double all = goodput.compute_s + goodput.data_s + goodput.collectives_s + goodput.checkpoint_s +
                     goodput.starting_s + goodput.restart_s + goodput.other_s;
  goodput.share = all > 0 ? goodput.compute_s / all : 0;
}

Goodput goodput_of(const track::RunRecord& record) {
  Goodput goodput;
  for (size_t i = 1; i < record.attempts.size(); ++i) {
    const track::AttemptRecord& attempt = record.attempts[i];
    const double gap = std::max(0.0, attempt.start - record.attempts[i - 1].end);
    goodput.restart_s += gap * static_cast<double>(attempt.world_size);
  }
  for (const run::AttemptTime& time : run::read_time_spent(record.run.path)) {
    add(time.spent, time.attempt <= 1, goodput);
  }
  return goodput;
}

}  // namespace

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
                     .hangs = run::hang_names(run.path),
                     .error = run.error};
  for (const track::AttemptRecord& attempt : record.attempts) {
    const bool open = !track::is_over(run) && attempt.attempt == run.attempt && attempt.failure.empty();
    summary.attempts.push_back({.attempt = attempt.attempt,
                                .world_size = attempt.world_size,
                                .start = attempt.start,
                                .end = open ? std::nullopt : std::optional(attempt.end),
                                .failure = attempt.failure});
  }
  summary.goodput = goodput_of(record);
  // Each process counts from its own beginning.
  if (const auto processes = run::read_data_figures(run.path); !processes.empty()) {
    summary.datasets = processes.back().figures.datasets;
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
  for (const Json& worker : run.workers) {  // those that have ended are counted already
    add(worker.value("spent", TimeSpent()), run.attempts.size() <= 1, run.goodput);
  }
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
