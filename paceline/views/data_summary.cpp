#include "paceline/views/data_summary.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "paceline/run/data_figures.h"
#include "paceline/views/node_samples.h"

namespace paceline::views {
namespace {

constexpr double kRecentSeconds = 10;
constexpr double kFreshSeconds = 15;   // old at most: a data process that lives is sampled each second
constexpr double kMuchWaiting = 0.05;  // of the time

// Numbers of one data process, of the last seconds or of all its time.
struct Rates {
  bool is_recent = false;
  SampleCurves curves;

  // The mean of a number in the last seconds.
  MaybeNumber recent(const std::string& column) const {
    const auto found = curves.curves.find(column);
    if (!is_recent || found == curves.curves.end()) return {};
    double sum = 0;
    int64_t count = 0;
    for (const double value : found->second.mean) {
      if (std::isnan(value)) continue;
      sum += value;
      ++count;
    }
    return count > 0 ? MaybeNumber(sum / static_cast<double>(count)) : std::nullopt;
  }
  // Of what has only grown, since the process began.
  MaybeNumber of_all(double total) const {
    const double seconds = curves.last - curves.first;
    return seconds > 0 ? MaybeNumber(total / seconds) : std::nullopt;
  }
  MaybeNumber rate(const std::string& column, double total) const { return is_recent ? recent(column) : of_all(total); }
};

Rates rates_of(const std::string& run_folder, int64_t process, bool is_live, double now) {
  const SampledSource source{"data", std::to_string(process)};
  // Of one that has ended only when it began and ended is asked.
  const auto curves = sample_curves(
      run_folder, source, {},
      {.from = is_live ? now - kRecentSeconds : now, .points = is_live ? static_cast<size_t>(kRecentSeconds) : 0});
  if (!curves.ok()) return {};
  return {.is_recent = is_live && now - curves->last < kFreshSeconds, .curves = *curves};
}

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.*f %%", share < 0.1 ? 1 : 0, 100 * share);
  return text;
}

std::string state_of(const OperatorSummary& one, const Rates& rates, bool is_live, bool is_held_up) {
  if (!is_live) return "ended";
  if (is_stuck(one.figures)) return "stuck";
  if (one.figures.num_tasks_running > 0 || (rates.is_recent && one.rows_per_s.value_or(0) > 0)) return "running";
  return rates.is_recent && is_held_up ? "blocked" : "idle";
}

// How long ranks waited, of the time in which they read.
struct Waited {
  double of_all = 0;   // of all that time, all ranks
  double most = 0;     // likewise, the rank that waited most
  MaybeNumber recent;  // of the last seconds, all ranks, where that was sampled
};

Waited waited_of(const std::string& dataset, const std::vector<RankFigures>& ranks, const Rates& rates) {
  Waited shares;
  double waited = 0, open = 0;
  for (const RankFigures& rank : ranks) {
    waited += rank.waited_s;
    open += rank.open_s;
    if (rank.open_s > 0) shares.most = std::max(shares.most, rank.waited_s / rank.open_s);
  }
  if (open > 0) shares.of_all = waited / open;
  const MaybeNumber waiting = rates.recent(dataset + "/waiting_ranks");
  if (waiting && !ranks.empty()) shares.recent = std::min(1.0, *waiting / static_cast<double>(ranks.size()));
  return shares;
}

// The operator whose threads work most is the one that more threads, or a quicker function, would help: operators of a
// dataset have no queues between them, a thread takes a block through all of them.
void add_verdict(const Waited& shares, DatasetSummary& dataset) {
  const std::string of_all = percent(shares.of_all) + " of the time";
  const std::string span = std::to_string(static_cast<int>(kRecentSeconds)) + " s";
  const std::string waited = shares.recent ? "ranks waited " + percent(*shares.recent) + " of the last " + span +
                                                 " for it, " + of_all + " so far"
                                           : "ranks waited " + of_all + " for it";
  if (dataset.ranks.empty()) {
    dataset.verdict = "nobody has read it yet";
    return;
  }
  const bool has_told = std::ranges::any_of(dataset.ranks, [](const RankFigures& rank) { return rank.open_s > 0; });
  if (!has_told) {
    dataset.verdict = "no rank has said yet how long it waits";
    return;
  }
  if (shares.recent.value_or(std::max(shares.of_all, shares.most)) < kMuchWaiting) {
    const bool was_before = shares.recent && shares.of_all >= kMuchWaiting;
    dataset.verdict = std::string("data is not the limit") + (was_before ? " now: " : ": ") + waited;
    return;
  }
  const auto work = [&](const OperatorSummary& one) {
    return shares.recent ? one.busy_threads.value_or(0) : one.figures.block_generation_time;
  };
  double all = 0;
  for (const OperatorSummary& one : dataset.operators) all += work(one);
  const auto most = std::ranges::max_element(dataset.operators, {}, work);
  if (all <= 0) {
    dataset.verdict = waited;
    return;
  }
  dataset.bottleneck = most->name;
  dataset.verdict = "bottleneck: " + most->name + ", which takes " + percent(work(*most) / all) +
                    " of its operators' time; " + waited;
}

DatasetSummary summary_of(const run::ProcessFigures& process, const DatasetFigures& figures, const Rates& rates,
                          bool is_live) {
  DatasetSummary dataset{.name = figures.name,
                         .host = process.figures.host,
                         .process = process.process,
                         .time = process.figures.time,
                         .read_ahead = figures.read_ahead,
                         .ranks = figures.ranks};
  const bool is_held_up = rates.recent(figures.name + "/backpressure_threads").value_or(0) > 0;
  bool is_running = false;
  for (size_t i = 0; i < figures.steps.size(); ++i) {
    const OperatorFigures& step = figures.steps[i];
    const std::string column = figures.name + "/" + std::to_string(i) + " " + step.name + "/";
    OperatorSummary one{
        .name = step.name,
        .rows_per_s = rates.rate(column + "rows_per_s", static_cast<double>(step.rows_task_outputs_generated)),
        .bytes_per_s = rates.rate(column + "bytes_per_s", static_cast<double>(step.bytes_task_outputs_generated)),
        .busy_threads = rates.rate(column + "busy_threads", step.block_generation_time),
        .figures = step};
    // What a block takes is counted once it is there.
    if (is_live && rates.is_recent) {
      one.busy_threads = std::max(one.busy_threads.value_or(0), static_cast<double>(step.num_tasks_running));
    }
    one.state = state_of(one, rates, is_live, is_held_up);
    is_running = is_running || one.state == "running" || one.state == "stuck" || one.state == "blocked";
    dataset.operators.push_back(std::move(one));
  }
  dataset.state = !is_live ? "ended" : is_running ? "running" : "idle";
  const Waited shares = waited_of(figures.name, figures.ranks, rates);
  dataset.waited_share = shares.recent.value_or(shares.of_all);
  dataset.most_waited_share = shares.most;
  add_verdict(shares, dataset);
  return dataset;
}

}  // namespace

std::vector<DatasetSummary> dataset_summaries(const track::RunRecord& record, bool is_live, double now) {
  std::vector<DatasetSummary> datasets;
  const std::vector<run::ProcessFigures> processes = run::read_data_figures(record.run.path);
  const double begin = record.attempts.empty() ? 0 : record.attempts.back().start;
  for (const run::ProcessFigures& process : processes) {
    // What those of earlier attempts have read says nothing any more, but where there is nothing else.
    if (process.figures.time < begin && &process != &processes.back()) continue;
    const Rates rates = rates_of(record.run.path, process.process, is_live, now);
    for (const DatasetFigures& figures : process.figures.datasets) {
      datasets.push_back(summary_of(process, figures, rates, is_live));
    }
  }
  std::ranges::stable_sort(datasets, {}, &DatasetSummary::name);
  return datasets;
}

}  // namespace paceline::views
