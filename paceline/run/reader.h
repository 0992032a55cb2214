// RunReader: a run folder as a RunRecord, kept up to date: what the run store holds and the command line shows.
//
// Folds the journal (state = fold(events)) and the history, each from where the last reading ended, so that following a
// live run costs what is new. Locks nothing. Not thread-safe.
#pragma once

#include <arrow/result.h>

#include <string>

#include "paceline/policy/state.h"
#include "paceline/run/journal.h"
#include "paceline/storage/local/line_reader.h"
#include "paceline/track/run_record.h"

namespace paceline::run {

class RunReader {
 public:
  /// `run_folder`: absolute.
  explicit RunReader(std::string run_folder);

  /// Reads what is new, or everything when the folder holds another run by now; says whether there was anything.
  /// IOError when the folder holds no run or cannot be read; Invalid naming the line that is no event.
  arrow::Result<bool> read();

  const track::RunRecord& record() const { return record_; }
  /// The state after all events read: what a record does not keep.
  const policy::RunState& state() const { return state_; }
  /// Drops the events read so far, so that record() has only those that come.
  void drop_events() { record_.events.clear(); }

 private:
  void add(const JournalEntry& entry, const Json& line);
  void take_over_state(Time time);
  void take_over_workers();
  void take_over_checkpoints();

  std::string folder_;
  storage::LineReader journal_;
  storage::LineReader history_;
  policy::RunState state_;
  int64_t line_ = 0;
  track::RunRecord record_;
};

/// Reads a run folder once. Errors as RunReader::read().
arrow::Result<track::RunRecord> read_run_folder(const std::string& run_folder);

}  // namespace paceline::run
