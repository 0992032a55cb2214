// Who watches the run's status: told as it changes, for as long as the connection lives (rpc/watch_messages.h).
//
// What ranks do stands in memory that only their agents see, and that tells nobody when it changes: agents are asked
// for it while somebody watches, and only then.

#include <algorithm>
#include <utility>

#include "paceline/controller/event_loop/run_loop_internal.h"
#include "paceline/core/json_change.h"
#include "paceline/rpc/watch_messages.h"

namespace paceline::controller {

using namespace policy;
namespace {

constexpr double kShortestInterval = 0.1;
// Watching costs this thread a twentieth of its time at most.
constexpr int kShare = 20;

Duration seconds_of(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

// The first that it is told has what the agents see now.
void RunLoop::add_watcher(const rpc::WatchRun& wanted, const Client& client) {
  const Duration interval = seconds_of(std::clamp(wanted.interval_s, kShortestInterval, rpc::kLongestSilence));
  ask_progress([this, interval, client] {
    watchers_.push_back({.client = client, .interval = interval, .next = parts_.clock.now()});
  });
}

void RunLoop::remove_watcher(const rpc::Channel* client) {
  std::erase_if(watchers_, [client](const Watcher& one) { return one.client.channel.get() == client; });
}

std::optional<Time> RunLoop::next_news() const {
  const auto next = std::ranges::min_element(watchers_, {}, &Watcher::next);
  return next == watchers_.end() ? std::nullopt : std::optional(next->next);
}

void RunLoop::tell_watchers(Time now, bool is_last) {
  const auto is_due = [&](const Watcher& one) { return is_last || one.next <= now; };
  if (std::ranges::none_of(watchers_, is_due)) return;
  const auto begun = std::chrono::steady_clock::now();
  const Json status = current_status();
  std::erase_if(watchers_, [&](Watcher& one) { return is_due(one) && !tell(one, status, now); });
  const auto cost = std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begun);
  for (Watcher& one : watchers_) one.next = std::max(one.next, now + kShare * cost);
  if (!watchers_.empty() && !is_last && !is_asking_for_watchers_) {
    is_asking_for_watchers_ = true;
    ask_progress([this] { is_asking_for_watchers_ = false; });
  }
}

// False when it has left.
bool RunLoop::tell(Watcher& watcher, const Json& status, Time now) {
  watcher.next = now + watcher.interval;
  const JsonChange change = change_of(watcher.told, status);
  if (change.is_empty() && now - watcher.last_told < seconds_of(rpc::kLongestSilence) - watcher.interval) return true;
  rpc::Envelope news = rpc::pack(rpc::RunChanged{.set = change.set, .removed = change.removed});
  news.reply_to = watcher.client.request;
  if (!watcher.client.channel->send(std::move(news)).ok()) return false;
  apply_change(change, watcher.told);
  watcher.last_told = now;
  return true;
}

}  // namespace paceline::controller
