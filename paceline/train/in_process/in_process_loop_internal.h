// InProcessLoop: the controller of a run whose train loop runs in the calling process. Not for users.
//
// It lives on rank 0 and does for the ranks of a group what RunLoop does for worker processes, with the same decide(),
// report book, journal and history: the run folder looks alike afterwards. There is nothing to start and nothing to
// kill: an EndWorker becomes an answer that stops every rank's session, and a failure is never tried again.
// Threading: the thread of the train loop. Errors: StorageError when the run folder cannot be written, UsageError when
// another driver holds the run.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/controller/callbacks.h"
#include "paceline/controller/controller.h"
#include "paceline/controller/report_log.h"
#include "paceline/core/log.h"
#include "paceline/core/record.h"
#include "paceline/policy/decide.h"
#include "paceline/policy/report_book.h"
#include "paceline/rpc/messages.h"
#include "paceline/run/indexer.h"
#include "paceline/run/journal.h"
#include "paceline/run/object_run.h"
#include "paceline/storage/local/run_lock.h"
#include "paceline/track/terminal.h"
#include "paceline/track/tracker/trackers.h"
#include "paceline/train/training_run.h"

namespace paceline::train {

// What a rank says in a meeting: its next report, or that its train loop has returned.
struct LocalWord {
  std::optional<rpc::Report> report;
  std::optional<rpc::Finished> finished;
};

// What rank 0 answers to all. `checkpoint`: published in this meeting, "" for none, that of report `committed`. `stop`:
// why the session shall stop, "" when it shall not; `error`: what ended the run, if an error did. `checkpoints`: those
// that are kept, the worst first. `ended`: every rank has finished.
#define PACELINE_LOCAL_ANSWER_FIELDS(FIELD)      \
  FIELD(std::string, checkpoint, "")             \
  FIELD(int64_t, committed, 0)                   \
  FIELD(std::string, stop, "")                   \
  FIELD(std::string, error, "")                  \
  FIELD(rpc::CheckpointEntries, checkpoints, {}) \
  FIELD(bool, ended, false)
PACELINE_RECORD(LocalAnswer, PACELINE_LOCAL_ANSWER_FIELDS);

class InProcessLoop {
 public:
  /// Takes the run over and begins the next attempt. `request` as for run_to_end(), but the folder is locked here.
  /// `validation` validates checkpoints, null for none.
  InProcessLoop(controller::RunRequest request, int64_t world_size, Validation validation);
  ~InProcessLoop();

  int64_t attempt() const { return state_.attempt.value; }
  /// What ranks must find in the storage.
  const std::string& storage_proof() const { return storage_proof_; }
  int64_t first_report() const { return state_.first_report; }
  /// Path of the checkpoint to start from, "" for none.
  const std::string& checkpoint() const { return checkpoint_; }
  rpc::CheckpointEntries checkpoints() const;
  track::Terminal& terminal() { return *terminal_; }

  /// Takes every rank's word.
  LocalAnswer meet(std::vector<LocalWord> words);
  /// The run ends; `failed` is how rank 0's train loop did, if not by its return; `interrupted`: SIGINT was before
  /// that.
  controller::RunOutcome end(const std::optional<rpc::Failed>& failed, bool interrupted);

 private:
  void feed(policy::Event event);
  void apply(const policy::Event& event);
  void write_reports();
  std::string checkpoint_path(int64_t report) const;
  WorkerId worker(size_t rank) const;

  void execute(const policy::EnterState& action);
  void execute(const policy::StartWorker& action) { workers_.push_back(action.worker); }
  void execute(const policy::AssignWorkers& action);
  void execute(const policy::EndWorker& action);
  void execute(const policy::CloseGroup& action);
  void execute(const policy::PublishCheckpoint& action);
  void execute(const policy::DeleteCheckpoint& action);
  void execute(const policy::TellCommitted& action) { committed_ = action.report; }
  void execute(const policy::StartValidation& action);
  void execute(const policy::EndValidation&) {}  // it has ended before anything else happens
  void execute(const policy::SetTimer&) {}       // there is no process to wait for
  void execute(const policy::TellCallbacks& action);
  void execute(const policy::Note& action) { log_->write(action.level, action.text); }
  void execute(const policy::Finish& action);

  const controller::RunRequest request_;
  const Validation validation_;
  const storage::RunLock lock_;
  const SystemClock clock_;
  std::unique_ptr<track::Terminal> terminal_;
  std::optional<Log> log_;
  std::unique_ptr<run::ObjectRun> object_run_;  // null for a run in a local folder
  std::optional<checkpoint::Store> store_;
  std::string storage_proof_;
  std::optional<run::Journal> journal_;
  std::optional<run::RunIndexer> recorder_;
  std::optional<controller::ReportLog> report_log_;
  std::optional<track::RunTrackers> trackers_;
  std::optional<controller::CallbackCaller> callbacks_;
  std::optional<policy::ReportBook> book_;

  policy::RunState state_;
  std::deque<policy::Event> events_;
  bool applying_ = false;
  std::vector<WorkerId> workers_;  // by rank
  std::string checkpoint_;
  int64_t committed_ = 0;  // report whose checkpoint was published in this meeting
  std::string stop_reason_;
  std::vector<bool> finished_;  // by rank
};

}  // namespace paceline::train
