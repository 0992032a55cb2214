// Checkpoints: publish in order, keep what retention keeps, never lose a published one.

#include <algorithm>

#include "paceline/checkpoint/manifest.h"
#include "paceline/checkpoint/retention.h"
#include "paceline/policy/decide_internal.h"

namespace paceline::policy {

// Also while the group is ended: every rank has handed over its part, so the checkpoint is whole.
void Decision::on(const CheckpointReady& event) {
  if (is_terminal(state_.state)) return;
  state_.last_report = std::max(state_.last_report, event.report);
  state_.publishing.insert(event.report);
  if (event.validation) queue_validation(event.report, *event.validation);
  act(PublishCheckpoint{event.report});
}

void Decision::on(const CheckpointPublished& event) {
  if (state_.publishing.erase(event.checkpoint.report) == 0) return;
  state_.failures_in_a_row = 0;
  forget_start_problems();
  drop_replaced(event.checkpoint);
  state_.checkpoints.push_back(event.checkpoint);
  if (find_validation(event.checkpoint.report) != nullptr) {
    state_.checkpoints.back().status = CheckpointStatus::pending_validation;
  }
  warn_of_score(event.checkpoint);
  note(LogLevel::info, "the checkpoint of report " + std::to_string(event.checkpoint.report) + " is published");
  act(TellCommitted{event.checkpoint.report});
  apply_retention();
  start_validations();
  finish_if_complete();
  when_gone();
}

// Users may give a name again, and mean the new one by it, which has taken the other's place or stands beside it.
void Decision::drop_replaced(const PublishedCheckpoint& fresh) {
  const std::string name = checkpoint::given_name(fresh);
  std::erase_if(state_.checkpoints, [&](const PublishedCheckpoint& kept) {
    if (checkpoint::given_name(kept) != name) return false;
    note(LogLevel::info, "the checkpoint of report " + std::to_string(kept.report) + " is replaced by that of report " +
                             std::to_string(fresh.report) + ", which has its name");
    if (const Validation* validation = find_validation(kept.report)) {
      if (validation->worker.value != 0) act(EndValidation{validation->worker, "its checkpoint is replaced"});
      std::erase_if(state_.validations, [&](const Validation& one) { return one.report == kept.report; });
    }
    act(DeleteCheckpoint{.report = kept.report, .name = kept.name, .is_gone = kept.name == fresh.name});
    return true;
  });
}

PublishedCheckpoint* Decision::find_kept(int64_t report) {
  const auto kept = std::ranges::find(state_.checkpoints, report, &PublishedCheckpoint::report);
  return kept == state_.checkpoints.end() ? nullptr : &*kept;
}

// Once while several such are kept.
void Decision::warn_of_score(const PublishedCheckpoint& fresh) {
  const CheckpointConfig& config = state_.options.checkpoint_config;
  const auto is_unusable = [&](const PublishedCheckpoint& one) { return checkpoint::has_unusable_score(one, config); };
  if (!is_unusable(fresh) || std::ranges::count_if(state_.checkpoints, is_unusable) > 1) return;
  note(LogLevel::warning, "the checkpoint of report " + std::to_string(fresh.report) +
                              " ranks as one without a score: \"" + config.checkpoint_score_attribute.value_or("") +
                              "\" (CheckpointConfig.checkpoint_score_attribute) is no number in its metrics");
}

void Decision::apply_retention() {
  for (const int64_t report : checkpoint::superseded(state_.checkpoints, state_.options.checkpoint_config)) {
    const auto kept = std::ranges::find(state_.checkpoints, report, &PublishedCheckpoint::report);
    note(LogLevel::debug, "the checkpoint of report " + std::to_string(report) + " is superseded");
    act(DeleteCheckpoint{.report = report, .name = kept->name});
    state_.checkpoints.erase(kept);
  }
}

void Decision::on(const PublishFailed& event) {
  if (state_.publishing.erase(event.report) == 0) return;
  std::erase_if(state_.validations, [&](const Validation& one) { return one.report == event.report; });
  const std::string text =
      "the checkpoint of report " + std::to_string(event.report) + " could not be published: " + event.error;
  note(LogLevel::error, text);
  if (state_.state == State::running || state_.state == State::preempting) {
    on_failure({.kind = FailureKind::publish, .text = text, .time = to_seconds(now_)});
  } else if (state_.state == State::shutting_down && state_.final_state == FinalState::finished) {
    record({.kind = FailureKind::publish, .text = text, .time = to_seconds(now_)});
    state_.final_state = FinalState::errored;  // it was stopped as finished, but its last checkpoint is not there
  }
  when_gone();
}

}  // namespace paceline::policy
