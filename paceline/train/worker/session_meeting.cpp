// How a session's ranks meet: in the controller's store where there is one, which can say who is missing, else in the
// process group. A meeting in the controller's store is a collective like those of the process group.
#include <utility>

#include "paceline/train/worker/session_internal.h"

namespace paceline::train {

std::string Session::store_key(const char* what) {
  return std::string("session/") + what + "/" + std::to_string(++meetings_) + "/";
}

// Added at the first meeting: a process group that is made begins to number anew.
const std::shared_ptr<GroupProgress>& Session::meeting_progress() {
  if (meeting_progress_ == nullptr && options_.progress != nullptr) meeting_progress_ = options_.progress->add_group();
  return meeting_progress_;
}

void Session::barrier() {
  collective([this] { options_.store ? meet_in_store() : group()->barrier(); });
}

// Ranks leave a key each and wait for all.
void Session::meet_in_store() {
  const CollectiveScope counted(meeting_progress(), {Collective::barrier});
  const std::string prefix = store_key("barrier");
  const std::string own_key = prefix + std::to_string(options_.context.world_rank);
  const auto failed = [&](const std::string& why) {
    throw CollectiveError("barrier() failed on rank " + std::to_string(options_.context.world_rank) + ": " + why,
                          CollectiveCause::other_rank);
  };
  if (const auto set = options_.store->set(own_key, ""); !set.ok()) failed(set.message());
  std::vector<std::string> keys;
  for (int64_t rank = 0; rank < options_.context.world_size; ++rank) keys.push_back(prefix + std::to_string(rank));
  const auto status = options_.store->wait(keys, options_.timeout);
  if (status.IsCancelled()) {
    std::string missing;
    for (int64_t rank = 0; rank < options_.context.world_size; ++rank) {
      if (options_.store->check({keys[rank]}).ValueOr(true)) continue;
      missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    }
    failed("it timed out after " + std::to_string(options_.timeout.count() / 1000.0) +
           " s (TorchConfig.timeout_s); ranks that have not come: " + missing +
           "; call barrier() on every rank, or give slow ranks more time");
  }
  if (!status.ok()) failed(status.message());
  // All have come here, so all have left the barrier before.
  if (!last_barrier_key_.empty()) (void)options_.store->delete_key(last_barrier_key_);
  last_barrier_key_ = own_key;
}

Json Session::broadcast_from_rank_zero(const Json& value) {
  const std::string text = options_.context.world_rank == 0 ? encode_json(value) : "";
  const std::string sent = collective(
      [&] { return options_.store ? broadcast_through_store(text) : comm::all_gather_text(*group(), text).front(); });
  return options_.context.world_rank == 0 ? value : value_or_throw(decode_json(sent));
}

std::string Session::broadcast_through_store(const std::string& text) {
  const CollectiveScope counted(meeting_progress(), {Collective::broadcast});
  const std::string prefix = store_key("broadcast");
  const std::string key = prefix + "value";
  const auto failed = [&](const std::string& why) {
    throw CollectiveError(
        "broadcast_from_rank_zero() failed on rank " + std::to_string(options_.context.world_rank) + ": " + why,
        CollectiveCause::other_rank);
  };
  if (options_.context.world_rank == 0) {
    if (const auto set = options_.store->set(key, text); !set.ok()) failed(set.message());
    return text;
  }
  auto received = options_.store->get(key, options_.timeout);
  if (received.status().IsCancelled()) {
    failed("rank 0 has sent no value within " + std::to_string(options_.timeout.count() / 1000.0) +
           " s (TorchConfig.timeout_s); call it on every rank, rank 0 too, in the same order");
  }
  if (!received.ok()) failed(received.status().message());
  // The last to read deletes.
  const auto readers = options_.store->add(prefix + "readers", 1);
  if (readers.ok() && *readers == options_.context.world_size - 1) {
    (void)options_.store->delete_key(key);
    (void)options_.store->delete_key(prefix + "readers");
  }
  return *std::move(received);
}

}  // namespace paceline::train
