// Topic: something that clients watch, as events: whole once, then what has changed. Pure.
//
// A value is a JSON object. A client's first event is a snapshot, {"topic", "value"}, and those that follow are deltas,
// {"topic", "set": members that are new or others than before, "removed": names}. Events are numbered across all topics
// of a server; a topic keeps the last ones for clients that come back.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "paceline/core/json.h"

namespace paceline::dashboard {

class Topic {
 public:
  struct Limits {
    size_t events = 1000;
    size_t bytes = size_t{4} << 20;
  };
  explicit Topic(std::string name, Limits limits) : name_(std::move(name)), limits_(limits) {}
  explicit Topic(std::string name) : Topic(std::move(name), Limits()) {}

  /// Takes the value as it is now. When it is another, `number` is counted up for the event, whose data is given.
  std::optional<std::string> update(Json value, uint64_t& number);
  /// The data of a snapshot; "" before the first value.
  std::string snapshot() const;

  struct Event {
    uint64_t number = 0;
    std::string data;
  };
  /// The deltas behind that number; nothing when they are not all there any more.
  std::optional<std::deque<Event>> since(uint64_t number) const;

 private:
  std::string name_;
  Limits limits_;
  Json value_;
  uint64_t whole_since_ = 0;  // what came after it is in events_
  size_t bytes_ = 0;
  std::deque<Event> events_;
};

}  // namespace paceline::dashboard
