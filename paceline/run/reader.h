// RunReader: a run folder as a RunRecord, kept up to date: what the run store holds and the command line shows.
//
// Folds the journal and the history, each from where the last reading ended, so that following a live run costs what is
// new. Of the journal it takes the consequences that the controller wrote down: what it tells of an old run does not
// depend on today's decide(). Only lines of version 0.1, which have none, are decided again. Locks nothing. Not
// thread-safe.
#pragma once

#include <arrow/result.h>

#include <string>

#include "paceline/policy/consequences.h"
#include "paceline/run/journal.h"
#include "paceline/storage/local/line_reader.h"
#include "paceline/track/run_record.h"

namespace paceline::run {

class RunReader {
 public:
  /// `run_folder`: absolute.
  explicit RunReader(std::string run_folder);

  /// Reads what is new, or everything when the folder holds another run by now; says whether there was anything. A
  /// damaged line of the journal becomes an event, "journal_damaged", and what follows it is not read. IOError when the
  /// folder holds no run or cannot be read; NotImplemented when a later Paceline wrote the journal.
  arrow::Result<bool> read();

  const track::RunRecord& record() const { return record_; }
  /// Drops the events read so far, so that record() has only those that come.
  void drop_events() { record_.events.clear(); }

 private:
  arrow::Status read_journal_lines();
  void add_damage(const std::string& why);
  arrow::Status add(const Json& line);
  void add_event(track::EventRecord event);
  void begin(const policy::RunOpened& opened, double time);
  arrow::Result<policy::Consequences> consequences(const Json& line);
  void take_states(const policy::Consequences& then, double time);
  void take_workers(const policy::Consequences& then);
  void take_checkpoints(const policy::Consequences& then);

  std::string folder_;
  storage::LineReader journal_;
  storage::LineReader history_;
  int64_t line_ = 0;         // of those that count
  int64_t passed_over_ = 0;  // others: of an earlier epoch
  JournalEpochs epochs_;
  bool is_damaged_ = false;
  int64_t format_ = 1;
  policy::RunState state_;  // after the lines that were decided again
  int64_t decided_ = 0;     // how many these are: all so far, or they begin anew
  track::RunRecord record_;
};

/// Reads a run folder once. Errors as RunReader::read().
arrow::Result<track::RunRecord> read_run_folder(const std::string& run_folder);

}  // namespace paceline::run
