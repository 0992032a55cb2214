// Processes that read datasets for the ranks of their node.

#include "paceline/controller/event_loop/run_loop_internal.h"
#include "paceline/controller/worker_process.h"
#include "paceline/core/run_layout.h"

namespace paceline::controller {

using namespace policy;

void RunLoop::execute(const StartDataProcess& action) {
  data_processes_[action.worker] = "";
  const Node& node = state().nodes[static_cast<size_t>(action.node)];
  const int64_t threads = threads_of(request_.scaling_config, node, workers_on_node_[action.node]);
  start(rpc::kDataRole, action.worker, action.node, start_data_message(request_, action.worker, threads, environment_));
}

void RunLoop::receive_from_data_process(WorkerId id, const rpc::Envelope& envelope) {
  const std::string& type = envelope.type;
  if (type == rpc::Output::kType) {
    show_output(id, -1, "data process", rpc::unpack<rpc::Output>(envelope).ValueOr(rpc::Output{}));
  } else if (type == rpc::Failed::kType) {
    const auto failed = rpc::unpack<rpc::Failed>(envelope).ValueOr(rpc::Failed{});
    data_processes_[id] = "failed: " + failed.kind + ": " + failed.text;
  } else if (type == rpc::ProcessSilent::kType) {
    // It serves nobody while it is stopped or hangs; the next one does.
    data_processes_[id] = "gave no sign of life (FailureConfig.heartbeat_timeout_s)";
    send(id, rpc::pack(rpc::EndProcess{.reason = "it gives no sign of life"}, identity_of(id)));
  } else if (type == rpc::ProcessStartFailed::kType) {
    const auto failed = rpc::unpack<rpc::ProcessStartFailed>(envelope).ValueOr(rpc::ProcessStartFailed{});
    end_data_process(id, "could not be started: " + failed.error);
  } else if (type == rpc::ProcessExited::kType) {
    const auto exited = rpc::unpack<rpc::ProcessExited>(envelope).ValueOr(rpc::ProcessExited{});
    end_data_process(id, describe(exited.end.status) + "; what it wrote: " + run_layout::data_log(id));
  }
}

// What it said of itself comes before what its end says.
void RunLoop::end_data_process(WorkerId id, const std::string& how) {
  const std::string said = data_processes_[id];
  data_processes_.erase(id);
  node_of_task_.erase(id);
  feed(DataProcessEnded{id, said.empty() ? how : said});
}

}  // namespace paceline::controller
