// Journal: every event of a run and what followed from it, in `journal.jsonl` of the run folder.
//
// One line per event: {"time": seconds since the Unix epoch, "epoch": 2, "event": "joined", …, "then": {…}}; "then" has
// the consequences, where readers see any. A controller that takes over folds the events with decide(); readers take
// the consequences as they stand. A line is written before the event's actions are executed, so a controller that takes
// over knows all that was acted on. A torn last line (a crash while writing) is no event; opening for writing removes
// it. A line that is damaged (a bad disk) ends the journal for readers; opening for writing moves it, and what follows,
// to a file beside it. Lines of an earlier controller behind a later one's first, which a driver wrote that was stopped
// while another took its run over, are nobody's: readers pass them over. Each controller's first line, "run_opened",
// has the "format" of those that follow. Version 0.1 wrote none: format 1, without consequences. Writing: one thread;
// reading: any process.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <optional>
#include <string>

#include "paceline/core/clock.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/policy/action.h"
#include "paceline/policy/event.h"

namespace paceline::run {

/// What this Paceline writes, and the latest that it reads.
inline constexpr int64_t kJournalFormat = 3;

/// Path of the journal in a run folder.
std::string journal_path(const std::string& run_folder);

class Journal {
 public:
  /// Opens the journal for appending; makes it if need be. `note` gets a warning for the log where a part of it was
  /// damaged.
  static arrow::Result<Journal> open(
      const std::string& run_folder, const std::function<void(const std::string&)>& note = [](const std::string&) {});

  /// Writes one event, which decide() has been given: `state` and `actions` are what it left. The time was rounded to
  /// what the journal stores by policy::journal_time().
  arrow::Status append(const policy::Event& event, const policy::RunState& state, const policy::Actions& actions,
                       Time now);
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

/// Which lines of a journal count, one after the other.
class JournalEpochs {
 public:
  /// Whether this one, the next, is not of an earlier epoch than the last controller's.
  bool take(const Json& line);

 private:
  int64_t last_ = 0;
};

/// The event that one line of the journal holds. Invalid: none; NotImplemented: as journal_format().
arrow::Result<JournalEntry> decode_journal_entry(const Json& line);
/// The format that a line of "run_opened" announces. NotImplemented, with what to do: a later one than kJournalFormat.
arrow::Result<int64_t> journal_format(const Json& line);

/// The first line of a journal that holds no event.
struct JournalDamage {
  int64_t line = 0;    // from 1
  int64_t offset = 0;  // of its first byte
  std::string why;

  /// "journal.jsonl is damaged in line 7: …; …".
  std::string text(const std::string& run_folder) const;
};

/// Calls `entry` for each event that counts, in order, up to the first damaged line, which it gives. IOError when the
/// journal cannot be read, NotImplemented for a later format.
arrow::Result<std::optional<JournalDamage>> read_journal(const std::string& run_folder,
                                                         const std::function<void(const policy::Event&, Time)>& entry);

/// The state after all events that can be read; nullopt when there is no journal or it holds none.
arrow::Result<std::optional<policy::RunState>> replay(const std::string& run_folder);

}  // namespace paceline::run
