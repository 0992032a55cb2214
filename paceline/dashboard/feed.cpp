#include "paceline/dashboard/feed.h"

#include <algorithm>
#include <charconv>

#include "paceline/core/posix/thread.h"
#include "paceline/transport/trust.h"

namespace paceline::dashboard {
namespace {

constexpr const char* kPing = ": nothing new\n\n";

}  // namespace

Feed::Feed(Look look, Options options)
    : look_(std::move(look)), options_(options), boot_(transport::random_id().ValueOr("0").substr(0, 8)) {
  thread_ = start_thread([this] { work(); });
}

Feed::~Feed() {
  stop();
}

std::string Feed::frame(uint64_t number, const char* event, const std::string& data) const {
  return "id: " + boot_ + "-" + std::to_string(number) + "\nevent: " + event + "\ndata: " + data + "\n\n";
}

void Feed::send(Client& client, const std::string& text) {
  client.lags = !client.deliver(text);
  client.last_sent = Clock::now();
}

uint64_t Feed::subscribe(const std::vector<std::string>& topics, const std::string& last_event_id, Deliver deliver) {
  const std::lock_guard lock(mutex_);
  Client& client = clients_[++next_client_];
  client.topics = topics;
  client.deliver = std::move(deliver);
  const bool returns = !last_event_id.empty();
  for (const std::string& name : topics) {
    watched_.try_emplace(name, name).first->second.has_changed = true;  // while nobody watched it, maybe
    client.missing[name] = returns ? "gap" : "";
  }
  send(client, "retry: 2000\n\n");
  uint64_t last = 0;
  const std::string mine = boot_ + "-";
  if (last_event_id.starts_with(mine)) {
    const char* const end = last_event_id.data() + last_event_id.size();
    const auto parsed = std::from_chars(last_event_id.data() + mine.size(), end, last);
    if (parsed.ec == std::errc() && parsed.ptr == end) resume(client, last);
  }
  begin(client);
  has_news_ = true;
  changed_.notify_all();
  return next_client_;
}

void Feed::note_change(const std::string& topic) {
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(topic);
  if (found == watched_.end() || std::exchange(found->second.has_changed, true)) return;
  has_news_ = true;
  changed_.notify_all();
}

// What the client has missed, where the topics still have all of it.
void Feed::resume(Client& client, uint64_t last) {
  std::vector<Topic::Event> missed;
  for (const std::string& name : client.topics) {
    const auto events = watched_.at(name).topic.since(last);
    if (!events) continue;
    client.missing.erase(name);
    missed.insert(missed.end(), events->begin(), events->end());
  }
  std::ranges::sort(missed, {}, &Topic::Event::number);
  for (const Topic::Event& event : missed) {
    send(client, frame(event.number, "delta", event.data));
    if (!client.lags) continue;
    for (const std::string& name : client.topics) client.missing[name] = "gap";
    return;
  }
}

// Snapshots of what it has nothing of.
void Feed::begin(Client& client) {
  for (auto entry = client.missing.begin(); entry != client.missing.end();) {
    const std::string data = watched_.at(entry->first).topic.snapshot();
    if (data.empty()) {
      ++entry;
      continue;
    }
    if (!entry->second.empty()) send(client, frame(number_, "gap", encode_json({{"topic", entry->first}})));
    if (!client.lags) send(client, frame(number_, "snapshot", data));
    if (client.lags) return;
    entry = client.missing.erase(entry);
  }
}

void Feed::unsubscribe(uint64_t subscription) {
  const std::lock_guard lock(mutex_);
  clients_.erase(subscription);
}

void Feed::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return;
    is_stopped_ = true;
    for (auto& [id, client] : clients_) send(client, frame(number_, "bye", "{}"));
    changed_.notify_all();
  }
  thread_.join();
}

void Feed::look_at(const std::string& name) {
  constexpr int kShare = 20;
  constexpr Clock::duration kLongestRest = std::chrono::seconds(5);
  const auto begin = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    watched_.at(name).has_changed = false;  // what changes from here on this look may miss
  }
  auto value = look_(name);  // reads disks, and asks drivers
  const auto end = Clock::now();
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(name);
  if (found == watched_.end()) return;
  Watched& watched = found->second;
  watched.may_look = std::max<Clock::time_point>(begin + options_.interval * 9 / 10,
                                                 end + std::min(kShare * (end - begin), kLongestRest));
  watched.must_look = std::max(watched.may_look, begin + options_.rest * 9 / 10);
  if (!value.ok()) return;  // the client keeps what it has
  const auto data = watched.topic.update(*std::move(value), number_);
  for (auto& [id, client] : clients_) {
    if (std::ranges::find(client.topics, name) == client.topics.end()) continue;
    if (!data || client.missing.contains(name)) continue;
    if (!client.lags) send(client, frame(number_, "delta", *data));
    if (client.lags) client.missing[name] = "gap";
  }
}

bool Feed::is_wanted(const std::string& topic) const {
  return std::ranges::any_of(clients_, [&topic](const auto& entry) {
    return std::ranges::find(entry.second.topics, topic) != entry.second.topics.end();
  });
}

// When there is something to do if nothing happens; nothing without clients and topics.
std::optional<Feed::Clock::time_point> Feed::next_turn() const {
  std::optional<Clock::time_point> next;
  const auto consider = [&next](Clock::time_point time) { next = next ? std::min(*next, time) : time; };
  for (const auto& [name, watched] : watched_) {
    consider(is_wanted(name) ? watched.next_look() : watched.last_wanted + options_.linger);
  }
  for (const auto& [id, client] : clients_) {
    consider(client.last_sent + (client.lags ? options_.interval : options_.ping));
  }
  return next;
}

void Feed::work() {
  std::unique_lock lock(mutex_);
  while (!is_stopped_) {
    const auto now = Clock::now();
    std::vector<std::string> names;
    for (auto& [name, watched] : watched_) {
      if (!is_wanted(name)) continue;
      watched.last_wanted = now;
      if (watched.next_look() <= now) names.push_back(name);
    }
    std::erase_if(watched_, [&](const auto& entry) { return now - entry.second.last_wanted > options_.linger; });
    lock.unlock();
    for (const std::string& name : names) look_at(name);
    lock.lock();
    for (auto& [id, client] : clients_) {
      if (client.lags) send(client, kPing);  // whether it takes something again
      if (!client.lags) begin(client);
      if (Clock::now() - client.last_sent >= options_.ping) send(client, kPing);
    }
    if (is_stopped_) break;
    const auto is_due = [this] { return is_stopped_ || has_news_; };
    const auto next = next_turn();
    next ? (void)changed_.wait_until(lock, *next, is_due) : changed_.wait(lock, is_due);
    has_news_ = false;
  }
}

}  // namespace paceline::dashboard
