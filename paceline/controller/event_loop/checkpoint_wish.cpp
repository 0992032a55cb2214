// A checkpoint that somebody wants now: the ranks' loops hear of it at the same of their calls
// (worker/checkpoint_wish.h).

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
  if (checkpoint_wish_) return checkpoint_wish_->clients.push_back(std::move(client));
  checkpoint_wish_.emplace(CheckpointWish{.number = ++last_question_});
  checkpoint_wish_->clients.push_back(std::move(client));
  if (request_.role.name != rpc::kWorkerRole.name) {
    return decide_checkpoint(0, "programs of `paceline run` are not told: they save when they want to");
  }
  if (state().state != State::running) {
    return decide_checkpoint(0, "the run is " + std::string(to_string(state().state)) + ": nobody trains now");
  }
  for (const auto& [id, worker] : state().workers) {
    if (worker.stage != WorkerStage::training) return decide_checkpoint(0, name_of(worker) + " is not training");
  }
  checkpoint_wish_->deadline = parts_.clock.now() + kPatienceWithRanks;
  for (const auto& [id, worker] : state().workers) {
    checkpoint_wish_->due.insert(id);
    send(id, rpc::pack(rpc::AskForCheckpoint{checkpoint_wish_->number}, identity_of(id)));
  }
}

void RunLoop::receive_checkpoint_place(const Worker& worker, const rpc::CheckpointPlace& place) {
  if (!checkpoint_wish_ || place.number != checkpoint_wish_->number) return;
  if (checkpoint_wish_->due.erase(worker.id) == 0) return;
  if (place.calls < 0) return decide_checkpoint(0, name_of(worker) + " is in no train loop now");
  if (place.calls == 0) return decide_checkpoint(0, name_of(worker) + kDoesNotAsk);
  checkpoint_wish_->last_call = std::max(checkpoint_wish_->last_call, place.calls);
  if (checkpoint_wish_->due.empty()) decide_checkpoint(checkpoint_wish_->last_call + 1, "");
}

void RunLoop::lose_for_checkpoint(const Worker& worker) {
  if (checkpoint_wish_ && checkpoint_wish_->due.contains(worker.id)) {
    decide_checkpoint(0, name_of(worker) + " has ended");
  }
}

void RunLoop::meet_checkpoint_deadline(Time now) {
  if (!checkpoint_wish_ || !checkpoint_wish_->deadline || *checkpoint_wish_->deadline > now) return;
  const Worker* const late = find(*checkpoint_wish_->due.begin());
  decide_checkpoint(0,
                    (late == nullptr ? std::string("a worker") : name_of(*late)) + " does not answer: it is stopped");
}

// `call`: 0 for none, and why.
void RunLoop::decide_checkpoint(int64_t call, const std::string& problem) {
  const CheckpointWish wish = *std::exchange(checkpoint_wish_, std::nullopt);
  books_.log().info(problem.empty()
                        ? "the ranks hear of it in call " + std::to_string(call) + " of checkpoint_requested()"
                        : "no checkpoint is asked for: " + problem);
  if (wish.deadline) {
    for (const auto& [id, worker] : state().workers) {
      if (worker.stage != WorkerStage::gone) {
        send(id, rpc::pack(rpc::CheckpointDecided{.number = wish.number, .call = call}, identity_of(id)));
      }
    }
  }
  for (const Client& client : wish.clients) {
    rpc::Envelope reply = rpc::pack(rpc::RunCheckpointReply{problem});
    reply.reply_to = client.request;
    [[maybe_unused]] const arrow::Status sent = client.channel->send(std::move(reply));  // it may have left
  }
}

}  // namespace paceline::controller
