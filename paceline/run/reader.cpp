#include "paceline/run/reader.h"

#include <filesystem>

#include "paceline/policy/decide.h"
#include "paceline/policy/failure_text.h"

namespace paceline::run {

using namespace policy;
namespace {

// What tells most in an event, without what is long.
Json details_of(Json line) {
  for (const char* member : {"event", "time", "epoch", "options", "checkpoints", "frames", "last_lines", "metrics"}) {
    line.erase(member);
  }
  constexpr size_t kMostText = 500;
  for (auto& [name, value] : line.items()) {
    if (value.is_string()) value = shortened(value.get_ref<const std::string&>(), kMostText);
  }
  return line;
}

}  // namespace

RunReader::RunReader(std::string run_folder)
    : folder_(std::move(run_folder)), journal_(journal_path(folder_)), history_(track::history_path(folder_)) {
  record_.run.path = folder_;
}

arrow::Result<bool> RunReader::read() {
  if (journal_.was_replaced() || history_.was_replaced()) *this = RunReader(folder_);
  const int64_t before = journal_.offset() + history_.offset();
  ARROW_RETURN_NOT_OK(journal_.read([this](std::string_view text) -> arrow::Status {
    const auto damaged = [this](const arrow::Status& why) {
      return why.WithMessage(journal_.path(), " is damaged in line ", line_ + 1, ": ", why.message());
    };
    const auto line = decode_json(text);
    if (!line.ok()) return damaged(line.status());
    const auto entry = decode_journal_entry(*line);
    if (!entry.ok()) return damaged(entry.status());
    ++line_;
    add(*entry, *line);
    return arrow::Status::OK();
  }));
  if (line_ == 0) {
    return arrow::Status::IOError(folder_, " holds no run (it has no journal); a run's folder is STORAGE_PATH/NAME");
  }
  ARROW_RETURN_NOT_OK(history_.read([this](std::string_view text) {
    if (const auto row = track::decode_history_line(text)) add_metrics(*row, record_);
    return arrow::Status::OK();
  }));
  take_over_checkpoints();
  record_.run.journal_bytes = journal_.offset();
  record_.run.history_bytes = history_.offset();
  return journal_.offset() + history_.offset() != before;
}

void RunReader::add(const JournalEntry& entry, const Json& line) {
  track::RunRow& run = record_.run;
  const double time = to_seconds(entry.time);
  if (line_ == 1) run.created = time;
  if (const auto* opened = std::get_if<RunOpened>(&entry.event)) {
    run.name = opened->name;
    // JSON cannot hold a name that is not UTF-8; the folder has it.
    const std::string folder_name = std::filesystem::path(folder_).filename().string();
    if (run.name.empty() || decode_json(encode_json(folder_name)).ValueOr(nullptr) == run.name) run.name = folder_name;
    run.opened = time;
    run.host = opened->host;
    run.pid = opened->pid;
  }
  const size_t failures = state_.failures.size();
  decide(state_, entry.event, entry.time);
  take_over_state(entry.time);
  // The frequent kinds change no worker.
  if (!std::holds_alternative<CheckpointReady>(entry.event) &&
      !std::holds_alternative<CheckpointPublished>(entry.event)) {
    take_over_workers();
  }
  if (!record_.attempts.empty() && !state_.failures.empty() && state_.failures.size() != failures) {
    record_.attempts.back().failure = cause_line(state_.failures, state_.world_size);
  }
  record_.events.push_back({line_, time, line.value("event", ""), details_of(line)});
  if (record_.events.size() >= 2 * track::kMostEvents) {
    record_.events.erase(record_.events.begin(), record_.events.end() - track::kMostEvents);
  }
}

void RunReader::take_over_state(Time time) {
  track::RunRow& run = record_.run;
  run.state = to_string(state_.state);
  run.since = state_.since;
  run.attempt = state_.attempt.value;
  run.world_size = state_.world_size;
  run.error = state_.error;
  if (run.attempt != 0) {
    if (record_.attempts.empty() || record_.attempts.back().attempt != run.attempt) {
      record_.attempts.push_back({.attempt = run.attempt, .start = to_seconds(time)});
    }
    record_.attempts.back().world_size = state_.world_size;
    record_.attempts.back().end = to_seconds(time);
  }
}

void RunReader::take_over_workers() {
  for (const auto& [id, worker] : state_.workers) {
    const auto node = static_cast<size_t>(worker.node);
    record_.workers[id.value] = {.worker = id.value,
                                 .attempt = state_.attempt.value,
                                 .rank = worker.rank,
                                 .node = node < state_.nodes.size() ? state_.nodes[node].name : "",
                                 .pid = worker.pid,
                                 .stage = Json(worker.stage).get<std::string>()};
  }
}

void RunReader::take_over_checkpoints() {
  record_.checkpoints.clear();
  for (const KeptCheckpoint& kept : state_.checkpoints) {
    record_.checkpoints.push_back(
        {kept.report, kept.name, kept.metrics, kept.time, Json(kept.status).get<std::string>()});
  }
}

arrow::Result<track::RunRecord> read_run_folder(const std::string& run_folder) {
  RunReader reader(run_folder);
  ARROW_RETURN_NOT_OK(reader.read());
  return reader.record();
}

}  // namespace paceline::run
