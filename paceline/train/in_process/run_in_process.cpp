#include "paceline/train/in_process/run_in_process_internal.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/checkpoint/stage.h"
#include "paceline/core/error.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/core/run_layout.h"
#include "paceline/policy/failure_text.h"
#include "paceline/storage/storage_proof.h"
#include "paceline/train/in_process/in_process_controller_internal.h"
#include "paceline/train/in_process/interrupt_internal.h"
#include "paceline/train/worker/failure_internal.h"
#include "paceline/train/worker/session_internal.h"
#include "paceline/train/worker/user_frames.h"

namespace paceline::train {
namespace {

// What rank 0 tells all before the loop begins.
#define PACELINE_LOCAL_BEGINNING_FIELDS(FIELD)              \
  FIELD(std::string, error, "") /* why it does not begin */ \
  FIELD(std::string, name, "")                              \
  FIELD(std::string, folder, "")                            \
  FIELD(std::string, location, "")                          \
  FIELD(std::string, storage_proof, "")                     \
  FIELD(int64_t, attempt, 1)                                \
  FIELD(int64_t, first_report, 1)                           \
  FIELD(std::string, checkpoint, "")                        \
  FIELD(PublishedCheckpoints, checkpoints, {})
PACELINE_RECORD(LocalBeginning, PACELINE_LOCAL_BEGINNING_FIELDS);

int64_t environment_number(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  const char* const end = text + std::strlen(text);
  int64_t number = 0;
  if (const auto [rest, problem] = std::from_chars(text, end, number); problem == std::errc() && rest == end) {
    return number;
  }
  throw ConfigError("the environment variable " + std::string(name) + " is \"" + text +
                    "\"; allowed: an integer, as torchrun sets it");
}

// Rank 0's text, on every rank.
std::string from_rank_zero(comm::Group& group, const std::string& text) {
  return comm::all_gather_text(group, group.rank() == 0 ? text : "").front();
}

// Reports are meetings of the ranks. `controller` is rank 0's, null elsewhere.
class LocalSink final : public ReportSink {
 public:
  LocalSink(comm::Group& group, InProcessController* controller, PublishedCheckpoints checkpoints)
      : group_(group), controller_(controller), checkpoints_(std::move(checkpoints)) {}

  void submit(rpc::Report report) override {
    meet({{"report", report}});
    // What the ranks reported together may have ended the run.
    Session::current("report()").throw_if_stopped();
  }
  // Nothing is ever pending: what was reported last was published, and validated, in its meeting.
  PublishedCheckpoints checkpoints(const rpc::CheckpointsRequest&) override { return checkpoints_; }
  // A report is a meeting of the ranks, as collectives are.
  bool takes_from_any_thread() const override { return false; }
  void fail(const std::exception_ptr&) override {}
  void show_progress(rpc::ProgressBar progress) override {
    if (controller_ == nullptr) return;
    controller_->terminal().progress(progress.label, progress.done, progress.total, progress.rate);
  }

  /// The loop has returned: takes part in the meetings of those whose loops have not.
  void finish(const rpc::Finished& finished) {
    Session& session = Session::current("fit()");
    while (!meet({{"finished", finished}})) session.throw_if_stopped();
  }

  /// The error that rank 0 ended the run with, as far as it said so.
  const std::string& error() const { return error_; }

 private:
  bool meet(const Json& word) {
    const auto texts = comm::all_gather_text(group_, encode_json(word));
    std::string text;
    if (controller_ != nullptr) {
      std::vector<LocalWord> words;
      for (const std::string& said : texts) words.push_back(parse(value_or_throw(decode_json(said))));
      text = encode_json(controller_->meet(std::move(words)));
    }
    const auto answer = value_or_throw(decode_json(from_rank_zero(group_, text))).get<LocalAnswer>();
    Session& session = Session::current("report()");
    if (!answer.checkpoint.empty()) session.set_checkpoint(answer.checkpoint, answer.committed);
    checkpoints_ = answer.checkpoints;
    if (!answer.error.empty()) error_ = answer.error;
    if (!answer.stop.empty() && !answer.ended) session.stop(answer.stop);
    return answer.ended;
  }

  static LocalWord parse(const Json& word) {
    LocalWord parsed;
    if (const auto report = word.find("report"); report != word.end()) parsed.report = report->get<rpc::Report>();
    if (const auto finished = word.find("finished"); finished != word.end()) {
      parsed.finished = finished->get<rpc::Finished>();
    }
    return parsed;
  }

  comm::Group& group_;
  InProcessController* controller_;
  PublishedCheckpoints checkpoints_;
  std::string error_;
};

// LibTorch's threads are the whole process's: they are given back.
class ThreadCount {
 public:
  explicit ThreadCount(std::optional<int64_t> threads) : before_(torch::get_num_threads()) {
    if (threads) torch::set_num_threads(static_cast<int>(*threads));
  }
  ~ThreadCount() { torch::set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  const int before_;
};

// RunConfig.worker_environment, over the process's own until it goes: after the controller's threads, which read it.
class WorkerEnvironment {
 public:
  explicit WorkerEnvironment(const Variables& variables) {
    for (const auto& [name, value] : variables) {
      const char* before = std::getenv(name.c_str());
      before_.emplace_back(name, before == nullptr ? std::nullopt : std::optional<std::string>(before));
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~WorkerEnvironment() {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }
  WorkerEnvironment(const WorkerEnvironment&) = delete;
  WorkerEnvironment& operator=(const WorkerEnvironment&) = delete;

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

// Place, device and group; the run's name and folder are agreed upon with the group.
SessionOptions join_group(const TrainingRun& run) {
  TrainContext::Values context;
  if (under_torchrun()) {
    context.world_rank = environment_number("RANK", 0);
    context.world_size = environment_number("WORLD_SIZE", 1);
    context.local_rank = environment_number("LOCAL_RANK", context.world_rank);
    context.local_world_size = torchrun_local_world_size();
    context.node_rank = environment_number("GROUP_RANK", 0);
  }
  SessionOptions options = options_at_place(context, run.scaling_config, run.torch_config, run.run_config.debug_config);
  const comm::GroupOptions group = group_options(options, run.torch_config);
  options.group =
      group.world_size > 1 ? comm::Group::from_torchrun_environment(group) : comm::Group::create(group, nullptr);
  return options;
}

std::unique_ptr<InProcessController> take_over(const TrainingRun& run, const storage::Location& start_from,
                                               int64_t world_size, LocalBeginning& beginning) {
  auto controller = std::make_unique<InProcessController>(take_run(run, start_from), world_size, run.validation);
  const controller::RunRequest& request = controller->request();
  beginning = {.name = *request.run_config.name,
               .folder = request.run_folder,
               .location = request.location.with_credentials(),
               .storage_proof = controller->storage_proof(),
               .attempt = controller->attempt(),
               .first_report = controller->first_report(),
               .checkpoint = controller->checkpoint().with_credentials(),
               .checkpoints = controller->checkpoints()};
  return controller;
}

// All ranks begin, or none does.
std::unique_ptr<InProcessController> begin(const TrainingRun& run, const storage::Location& start_from,
                                           comm::Group& group, LocalBeginning& beginning) {
  std::unique_ptr<InProcessController> controller;
  std::exception_ptr error;
  if (group.rank() == 0) {
    try {
      controller = take_over(run, start_from, group.size(), beginning);
      if (!controller->is_training()) beginning.error = "it has ended before its train loop";
    } catch (const std::exception& problem) {
      error = std::current_exception();
      beginning.error = problem.what();
    }
  }
  beginning = value_or_throw(decode_json(from_rank_zero(group, encode_json(beginning)))).get<LocalBeginning>();
  if (error) std::rethrow_exception(error);
  if (!beginning.error.empty() && !controller) throw Error("rank 0 could not begin the run: " + beginning.error);
  return controller;
}

// Every rank sees what rank 0 writes, or none begins.
void prove_storage(comm::Group& group, const LocalBeginning& beginning) {
  const arrow::Status seen = storage::check_storage_proof(beginning.folder + "/" + run_layout::kStaging,
                                                          beginning.location, beginning.storage_proof);
  const auto problems = comm::all_gather_text(group, seen.message());
  for (size_t rank = 0; rank < problems.size(); ++rank) {
    if (!problems[rank].empty()) throw StorageError("rank " + std::to_string(rank) + ": " + problems[rank]);
  }
}

// How the run has ended on a rank that has no controller.
LocalOutcome outcome_of(const std::optional<rpc::Failed>& failed, const Session& session, const std::string& error) {
  if (!failed) return {};
  if (failed->stopped && error.empty()) return {.state = FinalState::aborted};
  if (failed->stopped) return {.state = FinalState::errored, .error = error};
  const auto& context = session.options().context;
  const policy::Failure failure{.worker = session.options().identity.worker,
                                .rank = context.world_rank,
                                .node = "node_" + std::to_string(context.node_rank),
                                .exception = failed->kind,
                                .text = failed->text,
                                .frames = failed->frames};
  return {.state = FinalState::errored, .error = policy::error_text({failure}, context.world_size)};
}

}  // namespace

bool under_torchrun() {
  return std::getenv("RANK") != nullptr && std::getenv("WORLD_SIZE") != nullptr;
}

int64_t torchrun_local_world_size() {
  if (!under_torchrun()) return 1;
  return environment_number("LOCAL_WORLD_SIZE", environment_number("WORLD_SIZE", 1));
}

LocalOutcome run_in_process(const TrainingRun& run, const storage::Location& start_from, controller::StopSignal& stop) {
  const ThreadCount threads(run.scaling_config.threads_per_worker);
  const WorkerEnvironment environment(run.run_config.worker_environment);
  SessionOptions options = join_group(run);
  comm::Group& group = *options.group;
  LocalBeginning beginning;
  const auto controller = begin(run, start_from, group, beginning);
  if (controller && !controller->is_training()) {
    const controller::RunOutcome ended = controller->end(std::nullopt, StopCause::unknown);
    return {.location = beginning.location, .state = ended.state, .error = ended.error};
  }
  options.context.experiment_name = beginning.name;
  options.context.storage = beginning.location;
  options.run_folder = beginning.folder;
  options.driver = beginning.storage_proof;
  options.context.attempt = beginning.attempt;
  options.identity = {
      .epoch = {1}, .attempt = {beginning.attempt}, .generation = {0}, .worker = {options.context.world_rank + 1}};
  options.checkpoint = beginning.checkpoint;
  options.first_report = beginning.first_report;
  options.has_validation = run.validation != nullptr;
  LocalSink sink(group, controller.get(), beginning.checkpoints);
  options.sink = &sink;

  Session session(options);
  std::atomic<StopCause> interrupted{StopCause::unknown};
  std::optional<rpc::Failed> failed;
  {
    const ThrowRecorder recorder;
    const InterruptWatch watch(stop, [&] {
      interrupted = stop.cause();
      session.stop(describe(interrupted));
    });
    try {
      prove_storage(group, beginning);
      Json value = run.loop(run.train_loop_config);
      sink.finish({.reports = session.reports(), .return_value = group.rank() == 0 ? std::move(value) : Json()});
    } catch (...) {
      const std::exception_ptr exception = std::current_exception();
      if (run.describe) failed = run.describe(exception);
      if (!failed) failed = failure_of(exception);
      if (failed->collateral && session.is_stopped()) failed->stopped = true;
    }
  }
  LocalOutcome outcome;
  if (failed) group.abort();  // nobody waits for this rank any more
  if (controller) {
    const controller::RunOutcome ended = controller->end(failed, failed ? interrupted.load() : StopCause::unknown);
    outcome = {.state = ended.state, .error = ended.error};
  } else {
    outcome = outcome_of(failed, session, sink.error());
  }
  if (!failed) {
    // Only now does the run folder say how it ended.
    const std::string error = from_rank_zero(group, outcome.error);
    if (!error.empty()) outcome = {.state = FinalState::errored, .error = error};
  }
  outcome.location = beginning.location;
  return outcome;
}

}  // namespace paceline::train
