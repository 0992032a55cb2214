#include "paceline/rpc/key_value_table.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace paceline::rpc {
namespace {

// Longer waits have no deadline: the sum with `now` must stay in range.
constexpr double kEndlessSeconds = 1e9;

Envelope reply_to(const Identity& identity, int64_t request, const StoreReply& reply, std::string value = {}) {
  Envelope envelope = pack(reply, identity);
  envelope.reply_to = request;
  envelope.bytes = std::move(value);
  return envelope;
}

StoreReply invalid(std::string error) {
  return {.outcome = StoreOutcome::invalid, .error = std::move(error)};
}

bool waits(const StoreRequest& request) {
  return request.operation == StoreOperation::get || request.operation == StoreOperation::wait;
}

bool takes_one_key(StoreOperation operation) {
  return operation != StoreOperation::check && operation != StoreOperation::wait &&
         operation != StoreOperation::num_keys;
}

std::optional<int64_t> parse_number(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

template <class Values>
Strings missing_keys(const Strings& keys, const Values& values) {
  Strings missing;
  for (const std::string& key : keys) {
    if (!values.contains(key)) missing.push_back(key);
  }
  return missing;
}

}  // namespace

std::optional<std::string> find_error(const StoreRequest& request, size_t value_bytes) {
  if (request.operation == StoreOperation::unknown) return "the operation is unknown";
  if (takes_one_key(request.operation) && request.keys.size() != 1)
    return Json(request.operation).get<std::string>() + " takes one key, got " + std::to_string(request.keys.size());
  if (request.expected_size < 0 || static_cast<size_t>(request.expected_size) > value_bytes) {
    return "expected_size is " + std::to_string(request.expected_size) + ", but the message has " +
           std::to_string(value_bytes) + " bytes";
  }
  if (!(request.timeout_s >= 0)) return "the timeout is negative or no number";
  return std::nullopt;
}

KeyValueTable::Replies KeyValueTable::handle(const Envelope& request, Time now) {
  Replies replies;
  const auto answer = [&](const StoreReply& reply) {
    replies.push_back(reply_to(request.identity, request.request, reply));
  };
  const auto wanted = unpack<StoreRequest>(request);
  if (!wanted.ok()) {
    answer(invalid(wanted.status().message()));
    return replies;
  }
  if (const auto error = find_error(*wanted, request.bytes.size())) {
    answer(invalid(*error));
    return replies;
  }
  if (dropped_ && Place{request.identity.attempt, request.identity.generation} <= *dropped_) {
    answer({.outcome = StoreOutcome::closed});
    return replies;
  }
  Space& space = spaces_[{request.identity.attempt, request.identity.generation}];
  if (waits(*wanted)) {
    auto reply = answer_or_park({request.identity, request.request, *wanted, std::nullopt}, space, now);
    if (reply) replies.push_back(std::move(*reply));
  } else {
    replies.push_back(execute(request, *wanted, space));
    if (!wanted->keys.empty()) wake(wanted->keys[0], space, replies);
  }
  return replies;
}

Envelope KeyValueTable::execute(const Envelope& request, const StoreRequest& wanted, Space& space) {
  StoreReply reply;
  std::string value;
  const std::string key = wanted.keys.empty() ? std::string() : wanted.keys[0];
  const auto found = space.values.find(key);
  if (wanted.operation == StoreOperation::set) {
    space.values[key] = request.bytes;
  } else if (wanted.operation == StoreOperation::append) {
    space.values[key] += request.bytes;
  } else if (wanted.operation == StoreOperation::add) {
    const auto number = found == space.values.end() ? 0 : parse_number(found->second);
    if (!number || __builtin_add_overflow(*number, wanted.amount, &reply.number)) {
      reply = invalid("the value at \"" + key + "\" is no number that " + std::to_string(wanted.amount) +
                      " can be added to");
    } else {
      space.values[key] = std::to_string(reply.number);
    }
  } else if (wanted.operation == StoreOperation::compare_set) {
    const auto size = static_cast<size_t>(wanted.expected_size);
    const std::string expected = request.bytes.substr(0, size);
    const bool equal = found == space.values.end() ? expected.empty() : found->second == expected;
    if (equal) space.values[key] = request.bytes.substr(size);
    const auto after = space.values.find(key);
    value = after == space.values.end() ? expected : after->second;
  } else if (wanted.operation == StoreOperation::check) {
    reply.number = missing_keys(wanted.keys, space.values).empty();
  } else if (wanted.operation == StoreOperation::delete_key) {
    reply.number = static_cast<int64_t>(space.values.erase(key));
  } else {
    reply.number = static_cast<int64_t>(space.values.size());
  }
  return reply_to(request.identity, request.request, reply, std::move(value));
}

std::optional<Envelope> KeyValueTable::answer_or_park(Waiter waiter, Space& space, Time now) {
  Strings missing = missing_keys(waiter.wanted.keys, space.values);
  if (missing.empty()) return answer(waiter, space);
  if (waiter.wanted.timeout_s == 0) {
    return reply_to(waiter.identity, waiter.request, {.outcome = StoreOutcome::timeout, .missing = std::move(missing)});
  }
  if (waiter.wanted.timeout_s < kEndlessSeconds) {
    waiter.deadline = now + std::chrono::ceil<Duration>(std::chrono::duration<double>(waiter.wanted.timeout_s));
  }
  park(std::move(waiter), space);
  return std::nullopt;
}

Envelope KeyValueTable::answer(const Waiter& waiter, const Space& space) {
  const StoreRequest& wanted = waiter.wanted;
  return reply_to(waiter.identity, waiter.request, {},
                  wanted.operation == StoreOperation::get ? space.values.at(wanted.keys[0]) : std::string());
}

void KeyValueTable::park(Waiter waiter, Space& space) {
  const WaiterId id = ++last_waiter_;
  waiter.missing = missing_keys(waiter.wanted.keys, space.values)[0];
  space.waiting[waiter.missing].insert(id);
  if (waiter.deadline) deadlines_.emplace(*waiter.deadline, id);
  waiters_.emplace(id, std::move(waiter));
}

// `key` may be there now: answers those who have all they wait for; the others wait for another key.
void KeyValueTable::wake(const std::string& key, Space& space, Replies& replies) {
  if (!space.values.contains(key)) return;
  const auto waiting = space.waiting.extract(key);
  if (waiting.empty()) return;
  for (const WaiterId id : waiting.mapped()) {
    Waiter waiter = take(id);
    if (missing_keys(waiter.wanted.keys, space.values).empty()) {
      replies.push_back(answer(waiter, space));
    } else {
      park(std::move(waiter), space);
    }
  }
}

KeyValueTable::Waiter KeyValueTable::take(WaiterId id) {
  const auto waiter = waiters_.find(id);
  if (waiter->second.deadline) deadlines_.erase({*waiter->second.deadline, id});
  return std::move(waiters_.extract(waiter).mapped());
}

std::optional<Time> KeyValueTable::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

KeyValueTable::Replies KeyValueTable::expire(Time now) {
  Replies replies;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const WaiterId id = deadlines_.begin()->second;
    const Waiter waiter = take(id);
    Space& space = spaces_[{waiter.identity.attempt, waiter.identity.generation}];
    const auto waiting = space.waiting.find(waiter.missing);
    waiting->second.erase(id);
    if (waiting->second.empty()) space.waiting.erase(waiting);
    replies.push_back(
        reply_to(waiter.identity, waiter.request,
                 {.outcome = StoreOutcome::timeout, .missing = missing_keys(waiter.wanted.keys, space.values)}));
  }
  return replies;
}

KeyValueTable::Replies KeyValueTable::drop(Attempt attempt, Generation generation) {
  Replies replies;
  const Place place{attempt, generation};
  dropped_ = std::max(dropped_.value_or(place), place);
  const auto end = spaces_.upper_bound(*dropped_);
  for (auto space = spaces_.begin(); space != end; space = spaces_.erase(space)) {
    for (const auto& [key, ids] : space->second.waiting) {
      for (const WaiterId id : ids) {
        const Waiter waiter = take(id);
        replies.push_back(reply_to(waiter.identity, waiter.request, {.outcome = StoreOutcome::closed}));
      }
    }
  }
  return replies;
}

}  // namespace paceline::rpc
