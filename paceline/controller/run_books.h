// RunBooks: what every run keeps, however its workers are started: state, journal, reports, history, trackers, log,
// terminal, run store, checkpoints, callbacks and the outcome.
//
// Two loops own one: RunLoop, whose workers are processes, and train's InProcessController, whose ranks are the calling
// process and its peers. A loop feeds events; the books journal each, ask decide() and execute its actions as far as
// they are book-keeping, and hand those about workers to the loop, which is their Crew.
//
// Threading: all calls on the loop's thread, which also runs the user's callbacks. Errors: the first failure to write
// the run folder becomes the event StorageFailed, which ends the run.
#pragma once

#include <arrow/result.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/checkpoint/store.h"
#include "paceline/controller/callbacks.h"
#include "paceline/controller/end_watch.h"
#include "paceline/controller/occupation.h"
#include "paceline/controller/publisher.h"
#include "paceline/controller/report_queue.h"
#include "paceline/controller/run_request.h"
#include "paceline/core/clock.h"
#include "paceline/core/log.h"
#include "paceline/core/posix/exit_status.h"
#include "paceline/policy/decide.h"
#include "paceline/policy/report_book.h"
#include "paceline/rpc/messages.h"
#include "paceline/run/folder_lease.h"
#include "paceline/run/indexer.h"
#include "paceline/run/journal.h"
#include "paceline/run/object_run.h"
#include "paceline/track/samples_thread.h"
#include "paceline/track/terminal.h"
#include "paceline/track/tracker/run_trackers.h"

namespace paceline::controller {

struct RunOutcome {
  FinalState state = FinalState::finished;
  /// The whole message of a run that did not finish, as TrainingFailedError shows it.
  std::string error;
  /// Of what it says first.
  std::optional<FailureKind> failure_kind;
  /// Errors of the last attempt by rank.
  std::map<int64_t, std::string> worker_errors;
  /// How the process ended that failed first; not set when none did, or when its end was not what failed.
  std::optional<ExitStatus> first_failure;
  /// What rank 0's train loop returned.
  Json return_value = nullptr;
};

/// Of a process for which it is the run: 0 when that has finished; kTryAgain where nodes are missing; otherwise the
/// exit code of what failed first, 128 + its signal when one ended it, 1 where neither is known; 128 + `stop_signal`
/// when it was stopped.
int exit_code_of(const RunOutcome& outcome, int stop_signal);

/// What a loop does with its workers: the actions of decide() (policy/action.h) that the books leave to it.
class Crew {
 public:
  virtual ~Crew() = default;
  /// The log and the terminal have it already.
  virtual void execute(const policy::EnterState& action) = 0;
  virtual void execute(const policy::StartWorker& action) = 0;
  /// The books expect the group's reports from here on.
  virtual void execute(const policy::AssignWorkers& action) = 0;
  virtual void execute(const policy::EndWorker& action) = 0;
  /// What its ranks have reported is in the history.
  virtual void execute(const policy::CloseGroup& action) = 0;
  /// Publish; RunBooks::settle() takes the result, now or later.
  virtual void publish(PublishJob job) = 0;
  virtual void execute(const policy::DeleteCheckpoint& action) = 0;
  virtual void execute(const policy::TellCommitted& action) = 0;
  virtual void execute(const policy::StartValidation& action) = 0;
  virtual void execute(const policy::EndValidation& action) = 0;
  virtual void execute(const policy::StartDataProcess& action) = 0;
  virtual void execute(const policy::SetTimer& action) = 0;
};

class RunBooks {
 public:
  /// Takes the run over: what an earlier driver left is read, what it left half-done is deleted. `on_lease_lost` is
  /// called on another thread when another driver has taken a run in an object store; from then on its storage refuses
  /// what would be published. `on_history` is called on another thread when some of the metrics history has been
  /// written, or could not be, and note_history() is due; null: then the books wait for its disk themselves. Nothing is
  /// journaled yet. `request` and `clock` must outlive the books.
  static arrow::Result<std::unique_ptr<RunBooks>> open(const RunRequest& request, const Clock& clock,
                                                       const run::ObjectRun::Tell& on_lease_lost,
                                                       track::HistoryThread::Told on_history = nullptr);

  /// What the calling thread waits for from here on, at the run's end; "" for nothing. When that takes long, log and
  /// terminal say it, and, once the run has ended, the next Ctrl-C or SIGTERM ends the process.
  void wait_at_end_for(const std::string& what);

  /// Journals that the run is taken over, and what follows from that. An error means that nothing was journaled.
  arrow::Status begin(const policy::RunOptions& options, Crew& crew);
  /// Journals the event, decides, and executes what follows. Events that come while that is going on wait for their
  /// turn; after the run's end they change nothing.
  void feed(policy::Event event);

  /// A rank's next report.
  void report(int64_t rank, const rpc::Report& report);
  /// The files of a report that the rank has made before.
  void uploaded(int64_t rank, const rpc::CheckpointUploaded& upload);
  /// The rank's train loop has returned.
  void finish(const policy::Worker& worker, const rpc::Finished& finished);
  /// A checkpoint is published, or could not be.
  void settle(int64_t report, const arrow::Result<checkpoint::Published>& published);
  /// A checkpoint could not be deleted.
  void note_removal_failed(int64_t report, const arrow::Status& why);

  /// When meet_deadlines() has something to do; nothing while there is none.
  std::optional<Time> next_deadline() const;
  /// Ends a run whose time is over; writes history rows that have waited long enough.
  void meet_deadlines();
  /// Writes the rows now.
  void flush();
  /// Some of the history has been written, or could not be.
  void note_history();
  /// Samples of a node that its agent has sent (rpc/sample_messages.h).
  void keep_samples(const std::string& node, std::string lines);

  /// How the run has ended.
  RunOutcome outcome() const;
  /// The run has ended: tells the trackers, tidies up, completes run store and records. `storage_hangs`: what lies in
  /// the checkpoint store is left to the next start.
  RunOutcome close(bool storage_hangs = false);

  /// False once another driver may have taken a run in a folder that machines share, for good: nothing there is changed
  /// any more.
  bool is_ours();

  const policy::RunState& state() const { return state_; }
  const RunRequest& request() const { return request_; }
  Log& log() { return *log_; }
  track::Terminal& terminal() { return *terminal_; }
  checkpoint::Store& store() { return *store_; }
  /// What workers must find in the storage.
  const std::string& storage_proof() const { return storage_proof_; }
  std::string staging_folder() const;
  /// What of it nobody else may use, when this driver dies.
  std::string own_staging_folder() const;
  /// Null before the group has its ranks and after it is closed.
  const policy::ReportBook* book() const { return book_ ? &*book_ : nullptr; }
  /// What a rank that makes no more reports had made and others are still to make (policy/report_book.h).
  policy::AwaitedReport awaited_of(int64_t rank, bool is_gone) const;
  /// Whether a report of that number or a lower one waits for its checkpoint.
  bool waits_up_to(int64_t report) const { return report_queue_->waits_up_to(report); }
  /// Who has to catch up before ranks report more, and why, in words; "" for nobody.
  std::string held_up_by() const { return report_queue_->held_up_by(); }
  /// That, and trackers that lag, for which nobody waits: a sentence each.
  std::vector<std::string> waits_for() const;
  /// What the loop's thread is in where it is not ours: a callback.
  const Occupation& occupation() const { return *occupation_; }
  /// The highest number of a report that has come from any rank.
  int64_t highest_report() const { return highest_report_; }
  /// What was shown last: rank 0's metrics, reduced where report() asked for it, and the number of their report.
  const Json& shown_metrics() const { return shown_metrics_; }
  int64_t shown_report() const { return shown_report_; }

  /// Where the checkpoint of that report is.
  storage::Location checkpoint_path(int64_t report) const;
  /// Where an attempt starts from, "" for nothing: `report` of this run, or what the request says.
  storage::Location start_path(int64_t report) const;
  /// Kept checkpoints as workers are told of them, the worst first; without a score the oldest.
  PublishedCheckpoints checkpoints() const;

 private:
  RunBooks(const RunRequest& request, const Clock& clock);
  arrow::Status read_folder(const run::ObjectRun::Tell& on_lease_lost, track::HistoryThread::Told on_history);
  arrow::Status survey(const track::HistoryEnd& history);
  arrow::Status check_none_is_lost();
  void note_earlier();
  void tell_page();

  void feed_all();
  void apply(const policy::Event& event);
  void act(const policy::Actions& actions);
  void show_workers();
  void watch_last_publications();
  void show(int64_t report, const Json& metrics);
  void warn_of_unequal_reports();
  void end_wait_for_report();
  void publish_ready();
  void hand_on_reports();
  void advance_trackers();
  void check(const arrow::Status& written);

  template <class Action>
  void execute(const Action& action) {
    crew_->execute(action);
  }
  void execute(const policy::EnterState& action);
  void execute(const policy::AssignWorkers& action);
  void execute(const policy::CloseGroup& action);
  void execute(const policy::PublishCheckpoint& action);
  void execute(const policy::DeleteCheckpoint& action) {
    if (is_ours() && !action.is_gone) crew_->execute(action);
  }
  void execute(const policy::TellCommitted& action);
  void execute(const policy::TellCallbacks& action) { callbacks_->failed(state_, action); }
  void execute(const policy::Note& action) { log_->write(action.level, action.text); }
  void execute(const policy::Finish& action);

  const RunRequest& request_;
  const Clock& clock_;
  Crew* crew_ = nullptr;
  std::unique_ptr<track::Terminal> terminal_;
  std::optional<Log> log_;
  std::atomic<bool> has_ended_{false};
  std::optional<EndWatch> end_watch_;                    // from the end on, also of what comes below
  std::unique_ptr<run::ObjectRun> object_run_;           // null for a run in a local folder
  std::unique_ptr<storage::Lease> folder_lease_;         // of one that other machines may have too; else null
  std::function<arrow::Status(bool looks)> may_change_;  // of that lease or folder; null in an object store
  bool is_left_ = false;                                 // to the driver that has taken it
  std::optional<checkpoint::Store> store_;
  std::string storage_proof_;
  std::optional<run::Journal> journal_;
  std::optional<ReportQueue> report_queue_;
  std::optional<track::SamplesThread> samples_;
  std::optional<track::RunTrackers> trackers_;
  std::optional<run::RunIndexer> indexer_;
  std::unique_ptr<Occupation> occupation_ = std::make_unique<Occupation>();
  std::optional<CallbackCaller> callbacks_;

  policy::RunOpened opened_;  // what begin() journals
  policy::RunState state_;
  std::deque<policy::Event> events_;
  bool applying_ = false;
  const PublishedCheckpoint* settling_ = nullptr;  // whose publication is being applied
  std::string storage_failure_;                    // the first failure to write the run folder
  std::optional<policy::ReportBook> book_;
  int64_t highest_report_ = 0;
  Json shown_metrics_ = Json::object();
  int64_t shown_report_ = 0;
  std::pair<int64_t, int64_t> shown_workers_;  // ready, all
};

}  // namespace paceline::controller
