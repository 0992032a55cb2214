#include "paceline/controller/controller.h"

#include "paceline/controller/control_socket.h"
#include "paceline/controller/event_loop/run_loop_internal.h"

namespace paceline::controller {

using namespace policy;

arrow::Result<RunOutcome> run_to_end(const RunRequest& request, Launcher& launcher, const Clock& clock,
                                     StopSignal& stop) {
  Inbox inbox;  // outlives all that push into it
  const auto on_lease_lost = [&inbox](const std::string& why) { inbox.push(LeaseLost{why}); };
  const auto on_history = [&inbox] { inbox.push(HistoryWritten{}); };
  ARROW_ASSIGN_OR_RAISE(const std::unique_ptr<RunBooks> books,
                        RunBooks::open(request, clock, on_lease_lost, on_history));
  if (!request.start.note.empty()) books->log().info(request.start.note);
  const auto control = open_control_socket(request.run_folder, inbox, books->occupation());
  if (!control.ok()) books->log().warning("the command line cannot reach this run: " + control.status().message());
  rpc::Leftovers leftovers{request.run_folder, {}, {books->own_staging_folder()}};
  if (control.ok()) leftovers.files = (*control)->files();

  const auto launch = launcher.launch(
      {.on_agent = [&inbox](std::unique_ptr<rpc::Channel> agent) { inbox.push(AgentCame{std::move(agent)}); },
       .on_failure = [&inbox](AgentFailure failure) { inbox.push(AgentFailed{std::move(failure)}); }});
  if (launch.ok() && launch->others_may_come) books->store().expect_sent_stages();
  Publisher publisher(books->store(), inbox);
  RunLoop loop({*books, clock, stop, inbox, publisher, leftovers});
  const arrow::Status ran = loop.run(launch);
  launcher.close();
  ARROW_RETURN_NOT_OK(ran);
  books->wait_at_end_for("what is being published or deleted in " + request.location);
  const bool published = publisher.finish();  // it deletes what is still to be deleted
  return books->close(!published);
}

}  // namespace paceline::controller
