// Feed: what clients watch, told to them as it changes: server-sent events, four times a second at most, and less often
// where it costs much to look: a twentieth of a core at most.
//
// A thread of its own looks at the topics that somebody watches: when it is told that one has changed, and now and
// then, for what nobody tells. A topic is kept for a while after its last watcher, so that who comes back with
// Last-Event-ID gets what it missed. Who cannot have that, or does not take events as fast as they come, gets "gap" and
// a snapshot. Events: "snapshot", "delta" (topic.h), "gap" {"topic"}, "bye" {} when the server ends; a comment every 15
// s where there is nothing to say. Thread-safe.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "paceline/dashboard/topic.h"

namespace paceline::dashboard {

class Feed {
 public:
  /// The value of a topic as it is now; on the feed's thread.
  using Look = std::function<arrow::Result<Json>(const std::string& topic)>;
  /// Takes text for a client; false when it has too much to send already, and has not taken this. Called on any thread;
  /// must not wait.
  using Deliver = std::function<bool(const std::string& text)>;

  struct Options {
    /// Between two looks at a topic at least.
    std::chrono::milliseconds interval{250};
    /// Between two looks where nobody has told that it has changed.
    std::chrono::milliseconds rest{1'000};
    std::chrono::milliseconds ping{15'000};
    /// How long a topic is kept after its last watcher has left.
    std::chrono::milliseconds linger{60'000};
  };

  Feed(Look look, Options options);
  explicit Feed(Look look) : Feed(std::move(look), Options()) {}
  ~Feed();

  /// From now on `deliver` gets what becomes of these topics. `last_event_id`: what the client had last, or "".
  uint64_t subscribe(const std::vector<std::string>& topics, const std::string& last_event_id, Deliver deliver);
  /// When it returns, `deliver` is not called any more.
  void unsubscribe(uint64_t subscription);
  /// The topic is another now; of one that nobody watches this is nothing.
  void note_change(const std::string& topic);
  /// Says goodbye to all, and looks no more.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Watched {
    explicit Watched(const std::string& name) : topic(name) {}
    Topic topic;
    Clock::time_point last_wanted = Clock::now();
    Clock::time_point may_look, must_look;
    bool has_changed = false;

    Clock::time_point next_look() const { return has_changed ? may_look : must_look; }
  };
  struct Client {
    std::vector<std::string> topics;
    Deliver deliver;
    std::map<std::string, std::string> missing;  // topics that it has nothing of yet: what to say before the snapshot
    Clock::time_point last_sent;
    bool lags = false;
  };

  void work();
  bool is_wanted(const std::string& topic) const;
  std::optional<Clock::time_point> next_turn() const;
  void look_at(const std::string& name);
  void send(Client& client, const std::string& text);
  void begin(Client& client);
  void resume(Client& client, uint64_t last);
  std::string frame(uint64_t number, const char* event, const std::string& data) const;

  Look look_;
  Options options_;
  std::string boot_;  // numbers of another process mean nothing here
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopped_ = false;
  bool has_news_ = false;  // watchers or changes
  uint64_t number_ = 0;
  uint64_t next_client_ = 0;
  std::map<std::string, Watched> watched_;
  std::map<uint64_t, Client> clients_;
  std::thread thread_;
};

}  // namespace paceline::dashboard
