#include "paceline/controller/controller.h"

#include "paceline/checkpoint/stage.h"
#include "paceline/controller/control_socket.h"
#include "paceline/controller/run_loop_internal.h"
#include "paceline/controller/survey.h"
#include "paceline/storage/local.h"
#include "paceline/track/terminal.h"

namespace paceline::controller {
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
          .checkpoint_config = request.run_config.checkpoint_config};
}

}  // namespace

arrow::Result<RunOutcome> run_to_end(const RunRequest& request, Launcher& launcher, const Clock& clock,
                                     StopSignal& stop) {
  ARROW_RETURN_NOT_OK(storage::make_folders(request.run_folder + "/logs"));
  const std::unique_ptr<track::Terminal> terminal = track::make_terminal(stderr);
  const auto show = [&terminal](LogLevel level, const std::string& line) { terminal->log(level, line); };
  Log log(request.run_folder + "/logs/controller.log", show, log_level(request.run_config.log_level));

  ARROW_ASSIGN_OR_RAISE(const std::optional<RunState> replayed, replay(request.run_folder));
  const RunState earlier = replayed.value_or(RunState{});
  checkpoint::Store store(request.run_folder);
  ARROW_ASSIGN_OR_RAISE(RunOpened opened, survey(request, store, earlier));
  ARROW_ASSIGN_OR_RAISE(Journal journal, Journal::open(request.run_folder));
  ARROW_ASSIGN_OR_RAISE(track::HistoryWriter history, track::HistoryWriter::open(request.run_folder));
  note_earlier(request, earlier, opened, log);

  // In this order: agents and the control socket push into the inbox until they are gone, which is before it goes.
  Inbox inbox;
  std::optional<Publisher> publisher(std::in_place, store, inbox);
  auto control = open_control_socket(request.run_folder, inbox);
  if (!control.ok()) log.warning("the command line cannot reach this run: " + control.status().message());

  auto agents = launcher.launch();
  opened.options = options_of(request, agents.ok() ? static_cast<int64_t>(agents->size()) : 1);
  rpc::Leftovers leftovers{request.run_folder, {}, {request.run_folder + "/" + checkpoint::kStagingName}};
  if (control.ok()) leftovers.files = (*control)->files();
  RunLoop loop({request, clock, stop, log, *terminal, inbox, *publisher, leftovers}, std::move(journal),
               ReportLog(std::move(history)), earlier);
  ARROW_RETURN_NOT_OK(loop.open(opened));
  RunOutcome outcome = loop.run(std::move(agents));
  if (!publisher->finish()) {  // it deletes what is still to be deleted
    log.warning("the storage hangs: a checkpoint that was being published or deleted is left to the next start");
  } else if (const arrow::Status collected = store.collect_leftovers(); !collected.ok()) {
    log.warning("unpublished files could not be deleted: " + collected.message());
  }
  terminal->finish();
  return outcome;
}

}  // namespace paceline::controller
