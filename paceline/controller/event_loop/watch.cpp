// Watching the ranks' progress: hangs, with evidence before anything is done, and slow ranks.

#include <algorithm>

#include "paceline/controller/event_loop/run_loop_internal.h"
#include "paceline/policy/failure_text.h"
#include "paceline/run/hang_evidence.h"
#include "paceline/stacks/frames_for_user.h"

namespace paceline::controller {

using namespace policy;
namespace {

constexpr double kWatchSeconds = 1.0;

Duration watch_interval(const DebugConfig& config) {
  const double seconds = std::clamp(config.hang_floor_s / 10, 0.05, kWatchSeconds);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

bool RunLoop::is_watching() const {
  const bool running = state().state == State::running || state().state == State::preempting;
  const DebugConfig& config = request_.run_config.debug_config;
  return running && config.hang_action != "off" && !config.debug_rank;
}

// A worker's progress stands in memory of its agent's machine; nobody could tell that it did not change.
void RunLoop::watch_if_due(Time now) {
  if (!is_watching() || now < next_watch_) return;
  next_watch_ = now + watch_interval(request_.run_config.debug_config);
  ask_progress([this] { watch(); });
}

std::vector<RankProgress> RunLoop::ranks_progress() const {
  std::vector<RankProgress> ranks;
  for (const auto& [id, worker] : state().workers) {
    const bool finished = worker.stage == WorkerStage::finished;
    if (worker.rank < 0 || (worker.stage != WorkerStage::training && !finished)) continue;
    const auto progress = live_.progress.find(id);
    if (progress == live_.progress.end()) return {};  // who waits for whom is known of all ranks or of none
    ranks.push_back({.rank = worker.rank, .progress = progress->second, .finished = finished});
  }
  std::ranges::sort(ranks, {}, &RankProgress::rank);
  return ranks;
}

void RunLoop::watch() {
  if (!is_watching() || collecting_evidence_) return;
  const std::vector<RankProgress> ranks = ranks_progress();
  live_.stragglers = find_stragglers(ranks, request_.run_config.debug_config.straggler_factor);
  books_.terminal().stragglers(slow_text(live_.stragglers));
  for (const Straggler& slow : hang_watch_.new_stragglers(ranks)) {
    books_.log().warning("rank " + std::to_string(slow.rank) + " is slow: its steps take " + seconds_text(slow.step_s) +
                         " without waiting for others, those of the other ranks " + seconds_text(slow.median_s));
  }
  // The ranks wait for the run, or for those that do.
  const auto waits_for_us = [](const RankProgress& rank) { return rank.progress.phase == Phase::report; };
  if (is_asked_for_validations() || std::ranges::any_of(ranks, waits_for_us)) return;
  std::optional<HangVerdict> verdict = hang_watch_.look(ranks, is_output_held_up());
  if (!verdict) return;
  collecting_evidence_ = true;
  ask_stacks(-1, [this, verdict = *std::move(verdict), ranks, attempt = state().attempt,
                  generation = state().generation](const std::vector<stacks::WorkerStacks>& found) {
    collecting_evidence_ = false;
    HangFound event{.attempt = attempt,
                    .generation = generation,
                    .suspects = verdict.suspects,
                    .text = verdict.text,
                    .witness = verdict.witness};
    event.evidence = write_evidence(verdict, ranks, found);
    event.fail = (fails_on_hang_ && verdict.certain) || (fails_on_deadlock_ && verdict.deadlock);
    for (const stacks::WorkerStacks& worker : found) {
      if (worker.rank >= 0 && worker.rank == verdict.witness) event.frames = stacks::frames_for_user(worker.stacks);
    }
    feed(std::move(event));
  });
}

// Gives the folder, "" if there is none.
std::string RunLoop::write_evidence(const HangVerdict& verdict, const std::vector<RankProgress>& ranks,
                                    const std::vector<stacks::WorkerStacks>& found) {
  const auto kept = run::keep_hang(
      request_.run_folder,
      {.hang = run::found_hang(paceline::to_string(parts_.clock.now()), state().attempt.value, verdict, ranks),
       .workers = found});
  if (kept.ok()) return *kept;
  books_.log().warning("evidence of a hang could not be written: " + kept.status().message());
  return "";
}

}  // namespace paceline::controller
