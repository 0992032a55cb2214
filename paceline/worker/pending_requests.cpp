#include "paceline/worker/pending_requests.h"

#include "paceline/rpc/messages.h"

namespace paceline::worker {

PendingRequests::PendingRequests(std::function<void(rpc::Envelope)> send) : send_(std::move(send)) {}

arrow::Result<rpc::Envelope> PendingRequests::call(rpc::Envelope request, std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  if (closed_) return arrow::Status::IOError(*closed_);
  const std::string type = request.type;
  request.request = ++last_request_;
  const auto waiting = waiting_.emplace(request.request, std::nullopt).first;
  send_(std::move(request));
  changed_.wait_for(lock, limit, [&] { return closed_ || waiting->second; });
  std::optional<rpc::Envelope> reply = std::move(waiting_.extract(waiting).mapped());
  if (reply && reply->type == rpc::Refused::kType) {
    return arrow::Status::Invalid(rpc::unpack<rpc::Refused>(*reply).ValueOr(rpc::Refused{}).error);
  }
  if (reply) return std::move(*reply);
  if (closed_) return arrow::Status::IOError(*closed_, ", before a ", type, " was answered");
  return arrow::Status::IOError("the controller did not answer a ", type, " within ", limit.count() / 1000, " s");
}

void PendingRequests::complete(rpc::Envelope reply) {
  const std::lock_guard lock(mutex_);
  const auto waiting = waiting_.find(reply.reply_to);
  if (waiting == waiting_.end()) return;
  waiting->second = std::move(reply);
  changed_.notify_all();
}

void PendingRequests::close(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!closed_) closed_ = why;
  changed_.notify_all();
}

}  // namespace paceline::worker
