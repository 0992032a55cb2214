// InProcessController: the controller's loop of a run whose train loop runs in the calling process. Not for users.
//
// It lives on rank 0 and does for the ranks of a group what RunLoop does for worker processes; what the run keeps is
// the same RunBooks, so the run folder looks alike afterwards. There is nothing to start and nothing to kill: an
// EndWorker becomes an answer that stops every rank's session, and a failure is never tried again.
// Threading: the thread of the train loop. A lease that another driver has taken is looked at in the next meeting;
// until then the storage refuses what would be published. Errors: those of take_run() and RunBooks::open(), as
// exceptions.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "paceline/controller/run_books.h"
#include "paceline/core/record.h"
#include "paceline/rpc/messages.h"
#include "paceline/train/training_run.h"

namespace paceline::train {

// What a rank says in a meeting: its next report, or that its train loop has returned.
struct LocalWord {
  std::optional<rpc::Report> report;
  std::optional<rpc::Finished> finished;
};

// What rank 0 answers to all.
#define PACELINE_LOCAL_ANSWER_FIELDS(FIELD)                                                           \
  FIELD(std::string, checkpoint, "")           /* published in this meeting, "" for none */           \
  FIELD(int64_t, committed, 0)                 /* report of that checkpoint */                        \
  FIELD(std::string, stop, "")                 /* why the session shall stop, "" when it shall not */ \
  FIELD(std::string, error, "")                /* what ended the run, if an error did */              \
  FIELD(PublishedCheckpoints, checkpoints, {}) /* those that are kept, the worst first */             \
  FIELD(bool, ended, false)                    /* every rank has finished */
PACELINE_RECORD(LocalAnswer, PACELINE_LOCAL_ANSWER_FIELDS);

class InProcessController final : private controller::Crew {
 public:
  /// Takes the run over and begins the next attempt. `validation` validates checkpoints, null for none.
  InProcessController(controller::TakenRun run, int64_t world_size, Validation validation);
  ~InProcessController() override;

  const controller::RunRequest& request() const { return run_.request; }
  /// False where after_start() of a callback has failed, or has stopped the run: only end() is left to be called.
  bool is_training() const { return state().state == policy::State::running; }
  int64_t attempt() const { return state().attempt.value; }
  /// What ranks must find in the storage.
  const std::string& storage_proof() const { return books_->storage_proof(); }
  int64_t first_report() const { return state().first_report; }
  /// Path of the checkpoint to start from, "" for none.
  const storage::Location& checkpoint() const { return checkpoint_; }
  PublishedCheckpoints checkpoints() const { return books_->checkpoints(); }
  track::Terminal& terminal() { return books_->terminal(); }

  /// Takes every rank's word.
  LocalAnswer meet(std::vector<LocalWord> words);
  /// The run ends; `failed` is how rank 0's train loop did, if not by its return; `interrupted`: who stopped it before
  /// that, unknown for nobody.
  controller::RunOutcome end(const std::optional<rpc::Failed>& failed, StopCause interrupted);

 private:
  const policy::RunState& state() const { return books_->state(); }
  const policy::Worker& worker(size_t rank) const { return state().workers.at(workers_.at(rank)); }
  bool all_have_finished() const;
  bool end_if_lease_is_lost();

  void execute(const policy::EnterState&) override {}
  void execute(const policy::StartWorker& action) override { workers_.push_back(action.worker); }
  void execute(const policy::AssignWorkers& action) override;
  void execute(const policy::EndWorker& action) override;
  void execute(const policy::CloseGroup&) override {}
  void publish(controller::PublishJob job) override;
  void execute(const policy::DeleteCheckpoint& action) override;
  void execute(const policy::TellCommitted& action) override { committed_ = action.report; }
  void execute(const policy::StartValidation& action) override;
  void execute(const policy::EndValidation&) override {}     // it has ended before anything else happens
  void execute(const policy::StartDataProcess&) override {}  // the train loop's process reads for itself
  void execute(const policy::SetTimer&) override {}          // there is no process to wait for

  const controller::TakenRun run_;
  const Validation validation_;
  const SystemClock clock_;
  std::mutex lease_mutex_;
  std::string lease_lost_;                       // why, from the lease's own thread, until the loop looks at it
  std::unique_ptr<controller::RunBooks> books_;  // its threads end before what they write to
  std::vector<WorkerId> workers_;                // by rank
  storage::Location checkpoint_;
  int64_t committed_ = 0;  // report whose checkpoint was published in this meeting
  std::string stop_reason_;
  bool warned_about_timeout_ = false;
  std::vector<bool> finished_;  // by rank
};

}  // namespace paceline::train
