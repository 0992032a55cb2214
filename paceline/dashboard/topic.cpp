#include "paceline/dashboard/topic.h"

#include <algorithm>
#include <utility>

#include "paceline/core/json_change.h"

namespace paceline::dashboard {

std::optional<std::string> Topic::update(Json value, uint64_t& number) {
  if (value_.is_null()) {
    value_ = std::move(value);
    whole_since_ = ++number;
    return snapshot();
  }
  JsonChange change = change_of(value_, value);
  if (change.is_empty()) return std::nullopt;
  value_ = std::move(value);
  events_.push_back(
      {++number, encode_json({{"topic", name_}, {"set", std::move(change.set)}, {"removed", change.removed}})});
  std::string data = events_.back().data;
  bytes_ += data.size();
  while (events_.size() > limits_.events || (bytes_ > limits_.bytes && !events_.empty())) {
    whole_since_ = events_.front().number;
    bytes_ -= events_.front().data.size();
    events_.pop_front();
  }
  return data;
}

std::string Topic::snapshot() const {
  return value_.is_null() ? "" : encode_json({{"topic", name_}, {"value", value_}});
}

std::optional<std::deque<Topic::Event>> Topic::since(uint64_t number) const {
  if (value_.is_null() || number < whole_since_) return std::nullopt;
  std::deque<Event> events;
  std::ranges::copy_if(events_, std::back_inserter(events), [number](const Event& one) { return one.number > number; });
  return events;
}

}  // namespace paceline::dashboard
