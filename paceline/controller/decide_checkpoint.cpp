// Checkpoints: publish in order, keep what retention keeps, never lose a published one.

#include <algorithm>

#include "paceline/checkpoint/retention.h"
#include "paceline/controller/decide_internal.h"

namespace paceline::controller {

// Also while the group is ended: every rank has handed over its part, so the checkpoint is whole.
void Decision::on(const CheckpointReady& event) {
  if (is_terminal(state_.state)) return;
  state_.last_report = std::max(state_.last_report, event.report);
  state_.publishing.insert(event.report);
  act(PublishCheckpoint{event.report});
}

void Decision::on(const CheckpointPublished& event) {
  if (state_.publishing.erase(event.checkpoint.report) == 0) return;
  state_.failures_in_a_row = 0;
  state_.checkpoints.push_back(event.checkpoint);
  note(LogLevel::info, "the checkpoint of report " + std::to_string(event.checkpoint.report) + " is published");
  act(TellCommitted{event.checkpoint.report});
  if (state_.options.checkpoint_config.num_to_keep) {
    std::vector<checkpoint::Scored> scored;
    for (const KeptCheckpoint& kept : state_.checkpoints) scored.push_back({kept.report, kept.metrics});
    for (const int64_t report : checkpoint::superseded(scored, state_.options.checkpoint_config)) {
      std::erase_if(state_.checkpoints, [report](const KeptCheckpoint& kept) { return kept.report == report; });
      note(LogLevel::debug, "the checkpoint of report " + std::to_string(report) + " is superseded");
      act(DeleteCheckpoint{report});
    }
  }
  finish_if_complete();
  when_gone();
}

void Decision::on(const PublishFailed& event) {
  if (state_.publishing.erase(event.report) == 0) return;
  const std::string text =
      "the checkpoint of report " + std::to_string(event.report) + " could not be published: " + event.error;
  note(LogLevel::error, text);
  if (state_.state == State::running || state_.state == State::preempting) {
    on_failure({.kind = FailureKind::publish, .text = text, .time = to_seconds(now_)});
  }
  when_gone();
}

}  // namespace paceline::controller
