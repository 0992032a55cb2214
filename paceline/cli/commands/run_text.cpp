#include "paceline/cli/commands/run_text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>
#include <utility>
#include <vector>

#include "paceline/checkpoint/store.h"
#include "paceline/cli/table.h"
#include "paceline/core/bytes_text.h"
#include "paceline/core/clock.h"
#include "paceline/core/run_layout.h"
#include "paceline/track/status_line.h"

namespace paceline::cli {

using namespace views;
namespace {

std::string seconds_as_time(double seconds) {
  return paceline::to_string(from_seconds(seconds));
}

std::string percent_text(double share) {
  return std::to_string(std::lround(100 * share)) + " %";
}

// What a live worker uses, since it started: "cpu 97 %, 1.2 GiB".
void write_usage(const Json& worker, std::ostream& text) {
  const auto resident = worker.value("resident_bytes", int64_t{0});
  if (resident == 0) return;
  const double lived = to_seconds(SystemClock().now()) - worker.value("started", 0.0);
  if (lived > 0) text << ", cpu " << percent_text(worker.value("cpu_s", 0.0) / lived);
  text << ", " << bytes_text(resident);
}

void write_worker(const Json& worker, std::ostream& text) {
  const Json rank = worker.value("rank", Json());
  text << "  rank " << (rank.is_null() ? "?" : rank.dump()) << "       " << worker.value("stage", "");
  if (worker.contains("last_stage")) text << " with the driver (last known: " << worker.value("last_stage", "") << ")";
  text << ", process " << worker.value("pid", int64_t{0}) << " on " << printable(worker.value("node", ""));
  if (const int64_t step = worker.value("step", int64_t{0}); step > 0) {
    text << ", step " << step << " (" << worker.value("phase", "") << ")";
  } else if (worker.contains("phase")) {  // it has no steps, or none yet
    text << ", phase " << worker.value("phase", "");
  }
  write_usage(worker, text);
  if (worker.contains("slow")) {
    text << ", slow: its steps take " << worker.value("slow", 0.0) << " times as long as the others'";
  }
  text << "\n";
}

void write_attempt(const AttemptSummary& attempt, bool live, std::ostream& text) {
  text << "  attempt " << attempt.attempt << "    " << attempt.world_size
       << (attempt.world_size == 1 ? " worker, " : " workers, ") << seconds_as_time(attempt.start);
  if (attempt.end) {
    text << ", " << track::duration_text(*attempt.end - attempt.start);
  } else if (live) {
    text << ", " << track::duration_text(to_seconds(SystemClock().now()) - attempt.start) << " so far";
  }
  if (!attempt.failure.empty()) text << ", failed: " << printable(attempt.failure);
  text << "\n";
}

// "  time         81 % computing, 12 % data, 7 % starting": of all ranks, the largest first.
void write_goodput(const Goodput& goodput, std::ostream& text) {
  std::vector<std::pair<double, const char*>> parts = {{goodput.compute_s, "computing"},
                                                       {goodput.data_s, "data"},
                                                       {goodput.collectives_s, "collectives"},
                                                       {goodput.checkpoint_s, "checkpoints"},
                                                       {goodput.starting_s, "starting"},
                                                       {goodput.restart_s, "restarting"},
                                                       {goodput.other_s, "other"}};
  double all = 0;
  for (const auto& [seconds, what] : parts) all += seconds;
  if (all <= 0) return;
  std::ranges::stable_sort(parts, std::greater(), &std::pair<double, const char*>::first);
  constexpr double kLeastShown = 0.005;
  text << "  time         ";
  for (const auto& [seconds, what] : parts) {
    if (seconds / all < kLeastShown) break;
    text << (&what == &parts.front().second ? "" : ", ") << percent_text(seconds / all) << " " << what;
  }
  text << "\n";
}

double waited_share(const RankFigures& rank) {
  return rank.open_s > 0 ? rank.waited_s / rank.open_s : 0;
}

// How much of it the ranks have got, how long they waited for it, and what bounds it.
void write_dataset(const DatasetFigures& dataset, std::ostream& text) {
  RankFigures all;
  for (const RankFigures& rank : dataset.ranks) {
    all.rows += rank.rows;
    all.bytes += rank.bytes;
    all.waited_s += rank.waited_s;
    all.open_s += rank.open_s;
  }
  text << "  dataset      " << printable(dataset.name) << ": " << all.rows << " rows, " << bytes_text(all.bytes)
       << "; ranks waited " << percent_text(waited_share(all)) << " of the time for it";
  if (dataset.ranks.size() > 1) {
    const RankFigures& worst = *std::ranges::max_element(dataset.ranks, {}, waited_share);
    text << ", rank " << worst.rank << " most (" << percent_text(waited_share(worst)) << ")";
  }
  const auto slowest = std::ranges::max_element(dataset.steps, {}, &OperatorFigures::block_generation_time);
  const auto has_made_blocks = [](const OperatorFigures& step) { return step.block_generation_time > 0; };
  if (std::ranges::count_if(dataset.steps, has_made_blocks) > 1) {  // or it says nothing to call one the slowest
    text << "; slowest step: " << printable(slowest->name) << ", " << std::llround(rows_per_second(*slowest))
         << " rows/s in one thread";
  }
  for (const OperatorFigures& step : dataset.steps) {
    if (!is_stuck(step)) continue;
    text << "; " << printable(step.name) << " is at a block for " << std::llround(step.task_running_time_max) << " s";
  }
  text << "\n";
}

// "  (validation failed)"; nothing of a checkpoint that nobody wants validated.
std::string status_text(CheckpointStatus status) {
  if (status == CheckpointStatus::committed) return "";
  if (status == CheckpointStatus::pending_validation) return "  (validation pending)";
  auto text = Json(status).get<std::string>();
  std::ranges::replace(text, '_', ' ');
  return "  (" + text + ")";
}

}  // namespace

std::string to_text(const RunSummary& run) {
  std::ostringstream text;
  text << printable(run.name) << ": " << run.state << (run.remark.empty() ? "" : "; " + run.remark);
  text << "\n  folder       " << printable(run.location) << (run.gone ? " (deleted)" : "");
  if (run.location != run.path) text << "\n  here         " << printable(run.path);
  text << "\n  since        " << seconds_as_time(run.since) << "\n";
  if (!run.hangs.empty()) {
    text << "  hung         " << (run.hangs.size() == 1 ? "once, " : std::to_string(run.hangs.size()) + " times, last ")
         << run.hangs.back() << ": " << run_layout::kHangs << "/" << run.hangs.back() << "/" << run_layout::kHangReport
         << " in its folder says who waited for whom\n";
  }
  for (const std::string& one : run.waits_for) text << "  waits        " << one << "\n";
  for (const AttemptSummary& attempt : run.attempts) write_attempt(attempt, run.live, text);
  for (const Json& worker : run.workers) write_worker(worker, text);
  write_goodput(run.goodput, text);
  for (const DatasetFigures& dataset : run.datasets) write_dataset(dataset, text);
  for (const auto& kept : run.checkpoints) {
    text << "  checkpoint   " << checkpoint::folder_name(kept.name, kept.report) << "  "
         << track::metrics_text(kept.metrics) << status_text(kept.status) << "\n";
  }
  if (!run.metrics.empty()) text << "  report " << run.report << "     " << track::metrics_text(run.metrics) << "\n";
  if (!run.error.empty()) text << "\n" << run.error << "\n";
  return text.str();
}

}  // namespace paceline::cli
