// Processes that validate checkpoints, and workers that ask for all checkpoints.

#include <algorithm>

#include "paceline/controller/event_loop/run_loop_internal.h"
#include "paceline/controller/worker_process.h"
#include "paceline/core/run_layout.h"

namespace paceline::controller {

using namespace policy;

void RunLoop::execute(const StartValidation& action) {
  ValidationProcess& process = validations_[action.worker];
  process = {.report = action.report};
  if (action.task.timeout_s) {
    process.deadline = parts_.clock.now() +
                       std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*action.task.timeout_s));
  }
  const Node& node = state().nodes[static_cast<size_t>(action.node)];
  const int64_t threads = threads_of(request_.scaling_config, node, workers_on_node_[action.node]);
  start(rpc::kValidationRole, action.worker, action.node,
        start_validation_message(request_, action, books_.checkpoint_path(action.report).with_credentials(), threads,
                                 environment_));
}

void RunLoop::execute(const EndValidation& action) {
  const auto process = validations_.find(action.worker);
  if (process == validations_.end()) return;
  process->second.deadline.reset();
  send(action.worker, rpc::pack(rpc::EndProcess{.reason = action.reason}, identity_of(action.worker)));
}

void RunLoop::receive_from_validation(WorkerId id, ValidationProcess& process, const rpc::Envelope& envelope) {
  const std::string& type = envelope.type;
  if (type == rpc::Output::kType) {
    const auto output = rpc::unpack<rpc::Output>(envelope).ValueOr(rpc::Output{});
    show_output(id, -1, "validation " + std::to_string(process.report), output);
  } else if (type == rpc::Validated::kType) {
    process.metrics = rpc::unpack<rpc::Validated>(envelope).ValueOr(rpc::Validated{}).metrics;
  } else if (type == rpc::Failed::kType) {
    const auto failed = rpc::unpack<rpc::Failed>(envelope).ValueOr(rpc::Failed{});
    process.error = failed.kind + ": " + failed.text;
    for (const std::string& frame : failed.frames) process.error += "\n    at " + frame;
  } else if (type == rpc::ProcessSilent::kType) {
    feed(ValidationOverdue{process.report, id, "its process gave no sign of life (FailureConfig.heartbeat_timeout_s)"});
  } else if (type == rpc::ProcessStartFailed::kType) {
    const auto failed = rpc::unpack<rpc::ProcessStartFailed>(envelope).ValueOr(rpc::ProcessStartFailed{});
    end_validation(id, process, "its process could not be started: " + failed.error);
  } else if (type == rpc::ProcessExited::kType) {
    const auto exited = rpc::unpack<rpc::ProcessExited>(envelope).ValueOr(rpc::ProcessExited{});
    end_validation(id, process,
                   "its process " + describe(exited.end.status) +
                       "; what it wrote: " + run_layout::validation_log(process.report));
  }
}

// What it said of itself comes before what its end says.
void RunLoop::end_validation(WorkerId id, const ValidationProcess& process, const std::string& otherwise) {
  ValidationEnded ended{.report = process.report, .worker = id};
  if (process.metrics) {
    ended.metrics = *process.metrics;
  } else {
    ended.error = process.error.empty() ? otherwise : process.error;
  }
  validations_.erase(id);
  node_of_task_.erase(id);
  feed(std::move(ended));
}

void RunLoop::receive_checkpoints_request(const Worker& worker, const rpc::Envelope& envelope) {
  CheckpointsQuestion question{
      .worker = worker.id,
      .request = envelope.request,
      .wanted = rpc::unpack<rpc::CheckpointsRequest>(envelope).ValueOr(rpc::CheckpointsRequest{})};
  if (question.wanted.timeout_s >= 0) {
    question.deadline = parts_.clock.now() +
                        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(question.wanted.timeout_s));
  }
  checkpoints_questions_.push_back(question);
}

// Whether a worker waits for what is published or validated here, not for reports of other ranks.
bool RunLoop::is_asked_for_validations() const {
  return std::ranges::any_of(checkpoints_questions_, [this](const CheckpointsQuestion& question) {
    return books_.book() == nullptr || books_.book()->is_settled(question.wanted.report);
  });
}

bool RunLoop::is_settled(const rpc::CheckpointsRequest& wanted) const {
  if (books_.book() != nullptr && !books_.book()->is_settled(wanted.report)) return false;
  if (books_.waits_up_to(wanted.report)) return false;
  return !wanted.validated || std::ranges::none_of(state().validations, [&wanted](const Validation& one) {
    return one.report <= wanted.report;
  });
}

// After everything that has happened: whatever settles a question is an event.
void RunLoop::answer_checkpoints(Time now) {
  std::erase_if(checkpoints_questions_, [&](const CheckpointsQuestion& question) {
    if (!is_settled(question.wanted) && (!question.deadline || *question.deadline > now)) return false;
    rpc::Envelope reply = rpc::pack(rpc::CheckpointsReply{}, identity_of(question.worker));
    reply.reply_to = question.request;
    reply.bytes = encode_json(books_.checkpoints());
    send(question.worker, std::move(reply));
    return true;
  });
}

}  // namespace paceline::controller
