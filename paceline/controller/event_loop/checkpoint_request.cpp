// A checkpoint that somebody wants now: the ranks' loops hear of it at the same of their calls
// (worker/checkpoint_request.h).

#include <algorithm>
#include <utility>

#include "paceline/controller/event_loop/run_loop_internal.h"

namespace paceline::controller {

using namespace policy;
namespace {

// A rank's control thread answers at once unless its process is stopped; meanwhile the loops of the others may wait.
constexpr std::chrono::seconds kPatienceWithRanks{5};

constexpr const char* kDoesNotAsk =
    " has not asked yet whether a checkpoint is wanted: the train loop does so by calling checkpoint_requested() on "
    "every "
    "rank, for instance once a step, and then reports one";

}  // namespace

void RunLoop::ask_for_checkpoint(const rpc::RunCheckpointRequest& wanted, Client client) {
  const std::string who = wanted.who.empty() ? "the command line" : wanted.who;
  books_.log().info(who + " asks for a checkpoint now");
  if (checkpoint_request_) return checkpoint_request_->clients.push_back(std::move(client));
  checkpoint_request_.emplace(CheckpointRequest{.number = ++last_question_});
  checkpoint_request_->clients.push_back(std::move(client));
  if (request_.role.name != rpc::kWorkerRole.name) {
    return decide_checkpoint(0, "programs of `paceline run` are not told: they save when they want to");
  }
  if (state().state != State::running) {
    return decide_checkpoint(0, "the run is " + std::string(to_string(state().state)) + ": nobody trains now");
  }
  for (const auto& [id, worker] : state().workers) {
    if (worker.stage != WorkerStage::training) return decide_checkpoint(0, name_of(worker) + " is not training");
  }
  checkpoint_request_->deadline = parts_.clock.now() + kPatienceWithRanks;
  for (const auto& [id, worker] : state().workers) {
    checkpoint_request_->due.insert(id);
    send(id, rpc::pack(rpc::AskForCheckpoint{checkpoint_request_->number}, identity_of(id)));
  }
}

void RunLoop::receive_checkpoint_place(const Worker& worker, const rpc::CheckpointPlace& place) {
  if (!checkpoint_request_ || place.number != checkpoint_request_->number) return;
  if (checkpoint_request_->due.erase(worker.id) == 0) return;
  if (place.calls < 0) return decide_checkpoint(0, name_of(worker) + " is in no train loop now");
  if (place.calls == 0) return decide_checkpoint(0, name_of(worker) + kDoesNotAsk);
  checkpoint_request_->last_call = std::max(checkpoint_request_->last_call, place.calls);
  if (checkpoint_request_->due.empty()) decide_checkpoint(checkpoint_request_->last_call + 1, "");
}

void RunLoop::lose_for_checkpoint(const Worker& worker) {
  if (checkpoint_request_ && checkpoint_request_->due.contains(worker.id)) {
    decide_checkpoint(0, name_of(worker) + " has ended");
  }
}

void RunLoop::meet_checkpoint_deadline(Time now) {
  if (!checkpoint_request_ || !checkpoint_request_->deadline || *checkpoint_request_->deadline > now) return;
  const Worker* const late = find(*checkpoint_request_->due.begin());
  decide_checkpoint(0,
                    (late == nullptr ? std::string("a worker") : name_of(*late)) + " does not answer: it is stopped");
}

// `call`: 0 for none, and why.
void RunLoop::decide_checkpoint(int64_t call, const std::string& problem) {
  const CheckpointRequest request = *std::exchange(checkpoint_request_, std::nullopt);
  books_.log().info(problem.empty()
                        ? "the ranks hear of it in call " + std::to_string(call) + " of checkpoint_requested()"
                        : "no checkpoint is asked for: " + problem);
  if (request.deadline) {
    for (const auto& [id, worker] : state().workers) {
      if (worker.stage != WorkerStage::gone) {
        send(id, rpc::pack(rpc::CheckpointDecided{.number = request.number, .call = call}, identity_of(id)));
      }
    }
  }
  for (const Client& client : request.clients) {
    rpc::Envelope reply = rpc::pack(rpc::RunCheckpointReply{problem});
    reply.reply_to = client.request;
    [[maybe_unused]] const arrow::Status sent = client.channel->send(std::move(reply));  // it may have left
  }
}

}  // namespace paceline::controller
