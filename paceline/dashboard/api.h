// Api: the answers of the interface, from the runs that there are. One function per route (routes.h).
//
// Functions block: they read disks, and ask drivers. Thread-safe.
#pragma once

#include <arrow/result.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "paceline/dashboard/access/sessions.h"
#include "paceline/dashboard/access/site.h"
#include "paceline/dashboard/answers.h"
#include "paceline/dashboard/routes.h"
#include "paceline/dashboard/run_book.h"
#include "paceline/run/status_watch.h"
#include "paceline/views/shown_run.h"

namespace paceline::dashboard {

class Api {
 public:
  struct Options {
    bool read_only = false;
    /// Where browsers have it behind a proxy.
    Site site = {};
    /// Told of what sessions do to runs and of sessions that are opened, also of those that are refused.
    std::function<void(const std::string& what)> record = {};
  };
  /// Both must outlive it.
  Api(RunBook& runs, Sessions& sessions, Options options)
      : runs_(runs), sessions_(sessions), options_(std::move(options)) {}

  arrow::Result<Response> health(const Call& call);
  arrow::Result<Response> open_session(const Call& call);
  arrow::Result<Response> session(const Call& call);
  arrow::Result<Response> list_runs(const Call& call);
  arrow::Result<Response> show_run(const Call& call);
  arrow::Result<Response> metrics(const Call& call);
  arrow::Result<Response> all_nodes(const Call& call);
  arrow::Result<Response> nodes(const Call& call);
  arrow::Result<Response> samples(const Call& call);
  arrow::Result<Response> step_times(const Call& call);
  arrow::Result<Response> all_data(const Call& call);
  arrow::Result<Response> data(const Call& call);
  arrow::Result<Response> logs(const Call& call);
  arrow::Result<Response> log(const Call& call);
  arrow::Result<Response> events(const Call& call);
  arrow::Result<Response> checkpoints(const Call& call);
  arrow::Result<Response> verification(const Call& call);
  arrow::Result<Response> collectives(const Call& call);
  arrow::Result<Response> timeline(const Call& call);
  arrow::Result<Response> hangs(const Call& call);
  arrow::Result<Response> hang(const Call& call);
  arrow::Result<Response> configuration(const Call& call);
  arrow::Result<Response> profiles(const Call& call);
  arrow::Result<Response> profile(const Call& call);
  arrow::Result<Response> act(const Call& call);
  arrow::Result<Response> stream(const Call& call);
  arrow::Result<Response> description(const Call& call);
  arrow::Result<Response> prometheus(const Call& call);

  /// Nobody waits any more for profiles that are being taken, which runs keep all the same, nor for verifications.
  void give_up() { given_up_.request_stop(); }

  /// The value of a topic of the stream: "runs" is the last hundred by their ids, "run:ID" as show_run() has it. Of a
  /// live run its driver tells what changes for as long as somebody looks.
  arrow::Result<Json> look(const std::string& topic);
  /// `on_change` is told of topics that have become others, until the watch is ended; once, before the first look.
  void watch_runs(std::function<void(const std::string& topic)> on_change);
  void end_watch() { watch_.reset(); }

 private:
  /// At most so many at once: each may wait for a driver for a minute, and for a profile longer. Whoever takes profiles
  /// does not keep others from stopping a run.
  static constexpr int kMostActions = 2;
  static constexpr int kMostProfiles = 8, kMostProfilesOfRun = 2;
  /// Each reads a disk or a network for as long as its checkpoint is large.
  static constexpr int kMostVerifications = 1;

  arrow::Result<ActionAnswer> carry_out(const ActionRequest& request, const track::RunRow& run, const Call& call);
  std::atomic<int>& profiles_of(const track::RunRow& run);
  arrow::Result<track::RunRow> row_of(const std::string& id);
  arrow::Result<Json> shown_run(const std::string& id, const views::AskStatus& ask);
  arrow::Result<Json> live_status(const std::string& folder, std::chrono::milliseconds patience) const;
  void record(const std::string& what) const {
    if (options_.record) options_.record(what);
  }

  RunBook& runs_;
  Sessions& sessions_;
  Options options_;
  std::atomic<int> actions_{0};
  std::atomic<int> profiles_{0};
  std::mutex profiled_mutex_;
  std::map<std::string, std::atomic<int>> profiles_of_run_;  // by the run's folder
  std::atomic<int> verifications_{0};
  std::stop_source given_up_;
  std::unique_ptr<run::StatusWatch> watch_;  // null: drivers are asked each time
};

}  // namespace paceline::dashboard
