// ReportQueue: reports on their way. What each rank reports goes to the metrics history at once; what all ranks have
// made waits here, in order, for its checkpoint, and is then handed on to the user's callbacks.
//
// The history is synced before a checkpoint is published and at the run's end; else a row is written a second after it
// came, at the latest, and a crash of the machine may cost those that the system had not yet written. Nothing here
// waits for the disk but sync(): while too much waits, held_up_by() says so, and ranks shall report no more. Threading:
// the controller's thread.
#pragma once

#include <arrow/result.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/clock.h"
#include "paceline/core/ids.h"
#include "paceline/policy/report_book.h"
#include "paceline/track/history_thread.h"

namespace paceline::controller {

class ReportQueue {
 public:
  struct Entry {
    policy::GroupReport group;
    Attempt attempt;
    double time = 0;
    /// Name of its checkpoint's folder; "" for none.
    std::string checkpoint;
    bool waits = false;
    int64_t bytes = 0;  // of its metrics
  };

  /// So much of the history may wait to be written before ranks wait, and so many reports, and bytes of them, behind a
  /// publication.
  static constexpr int64_t kMostUnwritten = int64_t{4} << 20;
  static constexpr int64_t kMostWaiting = rpc::kReportsAhead;
  static constexpr int64_t kMostWaitingBytes = int64_t{64} << 20;

  /// `has_takers`: whether somebody wants the complete reports; else only those are kept that wait.
  ReportQueue(std::unique_ptr<track::HistoryThread> history, bool has_takers)
      : history_(std::move(history)), has_takers_(has_takers) {}

  /// Takes the row of a rank's report; true when users are shown its metrics from here on.
  bool note(int64_t rank, const rpc::Report& report, Attempt attempt, Time now);
  /// Takes a report that all ranks have made; one that hands files over waits for settle(). True when users are shown
  /// its metrics from here on.
  bool add(policy::GroupReport group, Attempt attempt, Time now);
  /// Of this group no report comes any more: users are shown rank 0's own metrics of those that are not complete. Gives
  /// the last of them.
  std::optional<rpc::Report> close_group(Attempt attempt, Time now);
  /// All files of the report's checkpoint have come.
  void set_parts(int64_t report, std::vector<checkpoint::StagedPart> parts);
  /// The report's checkpoint is published under that name, or, "", there is none.
  arrow::Status settle(int64_t report, const std::string& checkpoint, Time now);
  /// Nothing waits any more: what has no checkpoint yet gets none.
  void settle_all();
  /// Whether a report of that number or a lower one waits.
  bool waits_up_to(int64_t report) const;
  /// The report that waits, null when there is none of that number.
  const Entry* find(int64_t report) const;
  /// Hands on what waits for nothing.
  std::vector<Entry> take();

  /// Who has to catch up before ranks report more, and why, in words; "" for nobody.
  std::string held_up_by() const;

  /// Takes the line of a checkpoint that an earlier driver published, and that it could not write any more.
  void restore(const PublishedCheckpoint& checkpoint, Attempt attempt);
  /// As of HistoryThread.
  arrow::Status flush();
  arrow::Status sync() { return syncing()(); }
  std::function<arrow::Status()> syncing();
  /// From here on nothing is written: the folder is another driver's.
  void leave_history() { history_->leave(); }
  /// When the oldest row that is only in memory came: it is flushed a second later at most.
  std::optional<Time> unflushed_since() const { return unflushed_since_; }
  const track::HistoryThread& history() const { return *history_; }

 private:
  void append(const track::HistoryRow& row);
  void show(int64_t report, const Json& metrics, Attempt attempt, double time);

  std::unique_ptr<track::HistoryThread> history_;
  bool has_takers_;
  std::deque<Entry> entries_;
  int64_t bytes_ = 0;                    // of their metrics
  std::map<int64_t, Json> shown_later_;  // rank 0's metrics of reports that users are shown when they are complete
  std::optional<Time> unflushed_since_;
};

}  // namespace paceline::controller
