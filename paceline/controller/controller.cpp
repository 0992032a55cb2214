#include "paceline/controller/controller.h"

#include "paceline/checkpoint/stage.h"
#include "paceline/controller/control_socket.h"
#include "paceline/controller/run_loop_internal.h"
#include "paceline/controller/survey.h"
#include "paceline/controller/tracking.h"
#include "paceline/core/run_layout.h"
#include "paceline/run/object_run.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/location.h"
#include "paceline/storage/storage_proof.h"
#include "paceline/track/terminal.h"

namespace paceline::controller {

using namespace policy;
namespace {

RunOptions options_of(const RunRequest& request, int64_t nodes) {
  const FailureConfig& failure = request.run_config.failure_config;
  return {.num_workers = request.scaling_config.num_workers.max,
          .nodes = nodes,
          .gpus_per_worker = gpus_per_worker(request.scaling_config),
          .max_failures = failure.max_failures,
          .controller_failure_limit = failure.controller_failure_limit,
          .start_timeout_s = failure.start_timeout_s,
          .stop_grace_s = failure.stop_grace_s,
          .failure_grace_s = request.failure_grace_s,
          .max_time = request.run_config.max_time,
          .max_validations = request.validation_fn.empty() ? 0 : request.max_validations,
          .checkpoint_config = request.run_config.checkpoint_config};
}

}  // namespace

const std::string& location_of(const RunRequest& request) {
  return request.location.empty() ? request.run_folder : request.location;
}

std::string checkpoint_location(const RunRequest& request, const std::string& name) {
  return storage::join(location_of(request), name);
}

arrow::Result<RunOutcome> run_to_end(const RunRequest& request, Launcher& launcher, const Clock& clock,
                                     StopSignal& stop) {
  const std::unique_ptr<track::Terminal> terminal = track::make_terminal(stderr, nullptr, request.run_config.quiet);
  Inbox inbox;  // outlives all that push into it
  std::unique_ptr<run::ObjectRun> object_run;
  if (storage::is_uri(location_of(request))) {
    const auto note = [&terminal](const std::string& text) { terminal->log(LogLevel::info, text); };
    const auto on_lost = [&inbox](const std::string& why) { inbox.push(LeaseLost{why}); };
    ARROW_ASSIGN_OR_RAISE(object_run, run::ObjectRun::take(request.location, request.run_folder, note, on_lost));
  }
  const std::shared_ptr<storage::Storage> objects = object_run ? object_run->objects() : nullptr;

  ARROW_RETURN_NOT_OK(storage::make_folders(request.run_folder + "/" + run_layout::kLogs));
  const auto show = [&terminal](LogLevel level, const std::string& line) { terminal->log(level, line); };
  Log log(request.run_folder + "/" + run_layout::kControllerLog, show, log_level(request.run_config.log_level));

  ARROW_ASSIGN_OR_RAISE(const std::optional<RunState> replayed, run::replay(request.run_folder));
  const RunState earlier = replayed.value_or(RunState{});
  checkpoint::Store store(request.run_folder, objects);
  ARROW_ASSIGN_OR_RAISE(RunOpened opened, survey(request, store, earlier));
  const std::string staging = request.run_folder + "/" + run_layout::kStaging;
  ARROW_ASSIGN_OR_RAISE(const std::string proof, storage::write_storage_proof(staging, objects.get()));
  ARROW_ASSIGN_OR_RAISE(run::Journal journal, run::Journal::open(request.run_folder));
  ARROW_ASSIGN_OR_RAISE(track::HistoryWriter history, track::HistoryWriter::open(request.run_folder));
  note_earlier(request, earlier, opened, log);

  track::RunTrackers trackers(request.run_config.trackers, tracked_run(request), history, log);

  std::optional<Publisher> publisher(std::in_place, store, inbox);
  auto control = open_control_socket(request.run_folder, inbox);
  if (!control.ok()) log.warning("the command line cannot reach this run: " + control.status().message());

  auto agents = launcher.launch();
  opened.options = options_of(request, agents.ok() ? static_cast<int64_t>(agents->size()) : 1);
  rpc::Leftovers leftovers{request.run_folder, {}, {staging}};
  if (control.ok()) leftovers.files = (*control)->files();
  run::RunIndexer recorder(request.run_folder, request.run_store,
                           [&log](const std::string& text) { log.warning(text); });
  RunLoop loop(
      {request, clock, stop, log, *terminal, inbox, *publisher, recorder, trackers, leftovers, proof, object_run.get()},
      std::move(journal), ReportLog(std::move(history)), earlier);
  ARROW_RETURN_NOT_OK(loop.open(opened));
  if (object_run) object_run->push();
  RunOutcome outcome = loop.run(std::move(agents));
  if (!publisher->finish()) {  // it deletes what is still to be deleted
    log.warning("the storage hangs: a checkpoint that was being published or deleted is left to the next start");
  } else if (const arrow::Status collected = store.collect_leftovers(); !collected.ok()) {
    log.warning("unpublished files could not be deleted: " + collected.message());
  }
  recorder.finish();
  if (object_run) {
    const arrow::Status mirrored = object_run->finish();
    if (!mirrored.ok()) {
      log.error("journal, history and logs are complete only in " + request.run_folder +
                ", not in the storage: " + mirrored.message() + "; running the same run there again copies them");
    }
  }
  terminal->finish();
  return outcome;
}

}  // namespace paceline::controller
