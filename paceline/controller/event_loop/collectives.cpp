// The last collectives of the ranks: kept in the run folder when a worker has ended, and when the command line asks.

#include "paceline/run/collectives.h"

#include <algorithm>
#include <utility>

#include "paceline/controller/event_loop/run_loop_internal.h"

namespace paceline::controller {

using namespace policy;

void RunLoop::keep_collectives(const Worker& worker, std::string_view bytes, bool has_ended) {
  if (worker.rank < 0 || bytes.empty() || !books_.is_ours()) return;
  auto reading = decode_reading(bytes);
  if (!reading.ok()) return books_.log().warning(reading.status().message());
  const run::KeptCollectives kept{
      .rank = worker.rank, .world_size = state().world_size, .has_ended = has_ended, .reading = *std::move(reading)};
  const arrow::Status written = run::keep_collectives(request_.run_folder, state().attempt, kept);
  if (!written.ok()) books_.log().warning(written.message());
}

void RunLoop::ask_collectives(CollectivesQuestion question) {
  const int64_t number = ++last_question_;
  for (size_t agent = 0; agent < agents_.size(); ++agent) {
    rpc::Envelope envelope = rpc::pack(rpc::CollectivesRequest{});
    envelope.request = number;
    if (!agents_[agent].lost && agents_[agent].channel->send(std::move(envelope)).ok()) question.due.insert(agent);
  }
  if (question.due.empty()) return answer_collectives(question);
  collectives_questions_.emplace(number, std::move(question));
}

void RunLoop::receive_collectives(size_t agent, const rpc::Envelope& envelope) {
  const auto question = collectives_questions_.find(envelope.reply_to);
  if (question == collectives_questions_.end()) return;
  const auto reply = rpc::unpack<rpc::CollectivesReply>(envelope).ValueOr(rpc::CollectivesReply{});
  std::string_view bytes = envelope.bytes;
  for (size_t i = 0; i < std::min(reply.workers.size(), reply.sizes.size()); ++i) {
    const auto size = static_cast<size_t>(reply.sizes[i]);
    if (size > bytes.size()) break;
    const Worker* const worker = find(reply.workers[i]);
    if (worker != nullptr && worker->node == agents_[agent].node) {
      keep_collectives(*worker, bytes.substr(0, size), /*has_ended=*/false);
    }
    bytes.remove_prefix(size);
  }
  question->second.due.erase(agent);
  if (!question->second.due.empty()) return;
  const CollectivesQuestion answered = std::move(question->second);
  collectives_questions_.erase(question);
  answer_collectives(answered);
}

void RunLoop::answer_collectives(const CollectivesQuestion& question) {
  rpc::Envelope reply = rpc::pack(rpc::CollectivesReply{});
  reply.reply_to = question.request;
  [[maybe_unused]] const arrow::Status sent = question.client->send(std::move(reply));  // it may have left
}

}  // namespace paceline::controller
