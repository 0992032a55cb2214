#include "paceline/run/reader.h"

#include <algorithm>
#include <filesystem>

#include "paceline/policy/decide.h"
#include "paceline/policy/failure_text.h"

namespace paceline::run {

using namespace policy;
namespace {

// What tells most in an event, without what is long.
Json details_of(Json line) {
  for (const char* member : {"event", "time", "epoch", "format", "then", "options", "train_loop_config", "checkpoints",
                             "frames", "last_lines", "metrics"}) {
    line.erase(member);
  }
  constexpr size_t kMostText = 500;
  for (auto& [name, value] : line.items()) {
    if (value.is_string()) value = shortened(value.get_ref<const std::string&>(), kMostText);
  }
  return line;
}

std::string stage_text(WorkerStage stage) {
  return Json(stage).get<std::string>();
}

}  // namespace

RunReader::RunReader(std::string run_folder)
    : folder_(std::move(run_folder)), journal_(journal_path(folder_)), history_(track::history_path(folder_)) {
  record_.run.path = folder_;
}

arrow::Result<bool> RunReader::read() {
  if (journal_.was_replaced() || history_.was_replaced()) *this = RunReader(folder_);
  const int64_t before = journal_.offset() + history_.offset();
  ARROW_RETURN_NOT_OK(read_journal_lines());
  if (line_ == 0) {
    return arrow::Status::IOError(folder_, " holds no run (it has no journal); a run's folder is STORAGE_PATH/NAME");
  }
  ARROW_RETURN_NOT_OK(history_.read([this](std::string_view text) {
    if (!track::may_be_shown(text)) return arrow::Status::OK();
    if (const auto row = track::decode_history_line(text)) add_metrics(*row, record_);
    return arrow::Status::OK();
  }));
  record_.run.journal_bytes = journal_.offset();
  record_.run.history_bytes = history_.offset();
  return journal_.offset() + history_.offset() != before;
}

arrow::Status RunReader::read_journal_lines() {
  if (is_damaged_) return arrow::Status::OK();
  std::string damage;
  arrow::Status read = journal_.read([&](std::string_view text) -> arrow::Status {
    const arrow::Status added = [&]() -> arrow::Status {
      ARROW_ASSIGN_OR_RAISE(const Json line, decode_json(text));
      return add(line);
    }();
    if (!added.ok()) damage = added.message();
    return added;
  });
  if (read.ok() || damage.empty()) return read;
  if (read.IsNotImplemented()) return read.WithMessage(journal_.path(), ": ", damage);
  if (line_ == 0) return read.WithMessage(journal_.path(), " is damaged in line 1: ", damage);
  add_damage(damage);
  return arrow::Status::OK();
}

void RunReader::add_damage(const std::string& why) {
  is_damaged_ = true;
  const double last = record_.events.empty() ? record_.run.since : record_.events.back().time;
  const int64_t damaged = line_ + passed_over_ + 1;
  add_event({damaged, last, "journal_damaged", Json{{"line", damaged}, {"why", why}}});
}

arrow::Status RunReader::add(const Json& line) {
  const auto kind = line.find("event");
  const auto time = line.find("time");
  if (kind == line.end() || !kind->is_string()) return arrow::Status::Invalid("no event");
  if (time == line.end() || !time->is_number()) return arrow::Status::Invalid("no time");
  if (!epochs_.take(line)) {
    ++passed_over_;
    return arrow::Status::OK();
  }
  if (*kind == RunOpened::kType) {
    ARROW_ASSIGN_OR_RAISE(format_, journal_format(line));
    ARROW_ASSIGN_OR_RAISE(const Event event, decode_event(line));
    begin(std::get<RunOpened>(event), time->get<double>());
  }
  ARROW_ASSIGN_OR_RAISE(const Consequences then, consequences(line));
  ++line_;
  take_states(then, time->get<double>());
  take_workers(then);
  take_checkpoints(then);
  add_event({line_ + passed_over_, time->get<double>(), kind->get<std::string>(), details_of(line)});
  return arrow::Status::OK();
}

void RunReader::add_event(track::EventRecord event) {
  record_.events.push_back(std::move(event));
  if (record_.events.size() >= 2 * track::kMostEvents) {
    record_.events.erase(record_.events.begin(), record_.events.end() - track::kMostEvents);
  }
}

// What an earlier controller left stays: attempts, workers, events.
void RunReader::begin(const RunOpened& opened, double time) {
  track::RunRow& run = record_.run;
  if (line_ == 0) run.created = time;
  run.name = opened.name;
  // JSON cannot hold a name that is not UTF-8; the folder has it.
  const std::string folder_name = std::filesystem::path(folder_).filename().string();
  if (run.name.empty() || decode_json(encode_json(folder_name)).ValueOr(nullptr) == run.name) run.name = folder_name;
  run.opened = time;
  run.host = opened.host;
  run.pid = opened.pid;
  run.error.clear();
  record_.end = {};
  record_.checkpoints.clear();
  record_.checkpoint_config = opened.options.checkpoint_config;
}

arrow::Result<Consequences> RunReader::consequences(const Json& line) {
  if (format_ > 1) {
    const auto then = line.find("then");
    return then == line.end() ? Consequences{} : decode_consequences(*then);
  }
  if (decided_ != line_) {
    // A Paceline of version 0.1 has taken over what a later one began: its decisions need the state from the start.
    state_ = {};
    decided_ = 0;
    ARROW_RETURN_NOT_OK(read_journal(folder_, [this](const Event& event, Time time) {
                          if (decided_ < line_) decide(state_, event, time);
                          decided_ = std::min(decided_ + 1, line_);
                        }).status());
  }
  ARROW_ASSIGN_OR_RAISE(const JournalEntry entry, decode_journal_entry(line));
  const Actions actions = decide(state_, entry.event, entry.time);
  ++decided_;
  return consequences_of(entry.event, state_, actions);
}

void RunReader::take_states(const Consequences& then, double time) {
  track::RunRow& run = record_.run;
  for (const EnteredState& entered : then.entered) {
    run.state = to_string(entered.state);
    run.since = time;
    run.attempt = entered.attempt;
    run.world_size = entered.world_size;
    if (record_.attempts.empty() || record_.attempts.back().attempt != run.attempt) {
      record_.attempts.push_back({.attempt = run.attempt, .start = time});
    }
    record_.attempts.back().world_size = run.world_size;
    record_.attempts.back().end = time;
    if (entered.state == State::scheduling) record_.end.worker_errors.clear();
  }
  if (!record_.attempts.empty()) record_.attempts.back().end = time;
  for (const auto& [attempt, failure] : then.failures) {
    const auto failed = std::ranges::find(record_.attempts, attempt, &track::AttemptRecord::attempt);
    if (failed != record_.attempts.end()) failed->failure = failure;
  }
  if (!then.worker_errors.empty()) record_.end.worker_errors = then.worker_errors;
  if (!then.stop_reason.empty()) {
    record_.end.stop_cause = then.stop_cause;
    record_.end.stop_reason = then.stop_reason;
  }
  if (!then.return_value.is_null()) record_.end.return_value = then.return_value;
  if (!then.error.empty()) run.error = then.error;
  if (then.failure_kind) record_.end.failure_kind = then.failure_kind;
}

void RunReader::take_workers(const Consequences& then) {
  if (then.closed) {
    // Later workers are of the same attempt or a later one; of earlier attempts there may be thousands.
    for (auto worker = record_.workers.rbegin(); worker != record_.workers.rend(); ++worker) {
      if (worker->second.attempt < *then.closed) break;
      const bool stays =
          worker->second.attempt != *then.closed || worker->second.stage == stage_text(WorkerStage::finished);
      if (!stays) worker->second.stage = stage_text(WorkerStage::gone);
    }
  }
  for (const auto& [node, workers] : then.started) {
    for (const WorkerId id : workers) {
      record_.workers[id.value] = {
          .worker = id.value, .attempt = record_.run.attempt, .node = node, .stage = stage_text(WorkerStage::starting)};
    }
  }
  int64_t rank = 0;
  for (const WorkerId id : then.ranks) {
    track::WorkerRecord& worker = record_.workers[id.value];
    worker.rank = rank++;
    worker.stage = stage_text(WorkerStage::training);
  }
  for (const WorkerChange& change : then.workers) {
    track::WorkerRecord& worker = record_.workers[change.worker.value];
    worker.stage = stage_text(change.stage);
    if (change.pid != 0) worker.pid = change.pid;
  }
}

void RunReader::take_checkpoints(const Consequences& then) {
  for (const PublishedCheckpoint& kept : then.checkpoints) {
    const auto known = std::ranges::find(record_.checkpoints, kept.report, &PublishedCheckpoint::report);
    if (known == record_.checkpoints.end()) {
      record_.checkpoints.push_back(kept);
    } else {
      *known = kept;
    }
  }
  for (const int64_t report : then.deleted) {
    std::erase_if(record_.checkpoints, [report](const auto& one) { return one.report == report; });
  }
}

arrow::Result<track::RunRecord> read_run_folder(const std::string& run_folder) {
  RunReader reader(run_folder);
  ARROW_RETURN_NOT_OK(reader.read());
  return reader.record();
}

}  // namespace paceline::run
