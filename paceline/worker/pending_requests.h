// PendingRequests: calls that wait for their reply. Thread-safe.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "paceline/rpc/envelope.h"

namespace paceline::worker {

class PendingRequests {
 public:
  /// `send` queues an envelope and must not block; it is not called after close().
  explicit PendingRequests(std::function<void(rpc::Envelope)> send);

  /// Sends `request` under a number of its own and waits for the reply. IOError when the connection closes or nothing
  /// came within `limit`: whoever answers has its own timeouts, so that such a silence is a fault.
  arrow::Result<rpc::Envelope> call(rpc::Envelope request, std::chrono::milliseconds limit);
  /// Hands a reply to its caller. One that nobody waits for any more is dropped.
  void complete(rpc::Envelope reply);
  /// Fails all that wait, and every later call: they say `why`. The first reason stays.
  void close(const std::string& why);

 private:
  std::function<void(rpc::Envelope)> send_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, std::optional<rpc::Envelope>> waiting_;
  int64_t last_request_ = 0;
  std::optional<std::string> closed_;  // why
};

}  // namespace paceline::worker
