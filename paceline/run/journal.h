// Journal: every event of a run, in `journal.jsonl` of the run folder: the truth that state is folded from.
//
// One line per event: {"time": seconds since the Unix epoch, "epoch": 2, "event": "joined", …}. A line is written
// before the event's actions are executed, so a controller that takes over knows all that was acted on. A torn last
// line (a crash while writing) is no event; opening for writing removes it. Writing: one thread; reading: any process.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <optional>
#include <string>

#include "paceline/core/clock.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/policy/event.h"

namespace paceline::run {

/// Path of the journal in a run folder.
std::string journal_path(const std::string& run_folder);

class Journal {
 public:
  /// Opens the journal for appending; makes it if need be.
  static arrow::Result<Journal> open(const std::string& run_folder);

  /// Writes one event. The time is rounded to what the journal stores by policy::journal_time() first.
  arrow::Status append(const policy::Event& event, ControllerEpoch epoch, Time now);
  /// fsync: what was appended survives a crash of the machine.
  arrow::Status sync();

 private:
  explicit Journal(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
};

struct JournalEntry {
  policy::Event event;
  Time time;
};

/// What one line of the journal says; Invalid: nothing.
arrow::Result<JournalEntry> decode_journal_entry(const Json& line);

/// Calls `entry` for each event in order. IOError when the journal cannot be read, Invalid naming the line that is no
/// event (except a torn last one).
arrow::Status read_journal(const std::string& run_folder, const std::function<void(const policy::Event&, Time)>& entry);

/// The state after all events; nullopt when there is no journal or it holds no event.
arrow::Result<std::optional<policy::RunState>> replay(const std::string& run_folder);

}  // namespace paceline::run
