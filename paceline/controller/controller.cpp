#include "paceline/controller/controller.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "paceline/controller/control_socket.h"
#include "paceline/controller/run_loop_internal.h"

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
          .killed_grace_s = request.killed_grace_s,
          .max_time = request.run_config.max_time,
          .max_validations = request.validation_fn.empty() ? 0 : request.max_validations,
          .checkpoint_config = request.run_config.checkpoint_config};
}

}  // namespace

StopSignal::StopSignal() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void StopSignal::stop(int signal) noexcept {
  const int error = errno;  // a signal handler leaves it as it was
  signal_ = signal;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
  errno = error;
}

arrow::Result<RunOutcome> run_to_end(const RunRequest& request, Launcher& launcher, const Clock& clock,
                                     StopSignal& stop) {
  Inbox inbox;  // outlives all that push into it
  const auto on_lease_lost = [&inbox](const std::string& why) { inbox.push(LeaseLost{why}); };
  ARROW_ASSIGN_OR_RAISE(const std::unique_ptr<RunBooks> books, RunBooks::open(request, clock, on_lease_lost));
  if (!request.start_note.empty()) books->log().info(request.start_note);
  Publisher publisher(books->store(), inbox);
  const auto control = open_control_socket(request.run_folder, inbox);
  if (!control.ok()) books->log().warning("the command line cannot reach this run: " + control.status().message());
  rpc::Leftovers leftovers{request.run_folder, {}, {books->staging_folder()}};
  if (control.ok()) leftovers.files = (*control)->files();

  auto agents = launcher.launch();
  const RunOptions options = options_of(request, agents.ok() ? static_cast<int64_t>(agents->size()) : 1);
  RunLoop loop({*books, clock, stop, inbox, publisher, leftovers});
  ARROW_RETURN_NOT_OK(loop.run(std::move(agents), options));
  const bool published = publisher.finish();  // it deletes what is still to be deleted
  return books->close(!published);
}

}  // namespace paceline::controller
