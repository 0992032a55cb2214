#include "paceline/rpc/memory_key_value.h"

#include <condition_variable>
#include <mutex>
#include <unordered_map>

#include "paceline/rpc/key_value_client.h"
#include "paceline/rpc/key_value_table.h"

namespace paceline::rpc {

// The table, and the replies that its callers have not fetched yet. Whoever waits expires the deadlines as well.
class MemoryKeyValueStore::State {
 public:
  arrow::Result<Envelope> call(Envelope request) {
    std::unique_lock lock(mutex_);
    const int64_t number = ++last_request_;
    request.request = number;
    deliver(table_.handle(request, clock_.now()));
    while (true) {
      const auto reply = replies_.find(number);
      if (reply != replies_.end()) return std::move(replies_.extract(reply).mapped());
      if (const auto deadline = table_.next_deadline()) {
        changed_.wait_for(lock, *deadline - clock_.now());
        deliver(table_.expire(clock_.now()));
      } else {
        changed_.wait(lock);
      }
    }
  }

  void drop(Attempt attempt) {
    const std::lock_guard lock(mutex_);
    deliver(table_.drop(attempt));
  }

 private:
  void deliver(KeyValueTable::Replies replies) {
    for (Envelope& reply : replies) {
      const int64_t number = reply.reply_to;
      replies_.emplace(number, std::move(reply));
    }
    changed_.notify_all();
  }

  const SystemClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  KeyValueTable table_;
  std::unordered_map<int64_t, Envelope> replies_;
  int64_t last_request_ = 0;
};

MemoryKeyValueStore::MemoryKeyValueStore() : state_(std::make_shared<State>()) {}
MemoryKeyValueStore::~MemoryKeyValueStore() = default;

std::shared_ptr<KeyValueClient> MemoryKeyValueStore::client(const Identity& identity) {
  return make_key_value_client(
      [state = state_](Envelope request, KeyValueClient::Timeout) { return state->call(std::move(request)); },
      identity);
}

void MemoryKeyValueStore::drop(Attempt attempt) {
  state_->drop(attempt);
}

}  // namespace paceline::rpc
