#include "paceline/launch/store_answer.h"

#include <algorithm>
#include <chrono>

#include "paceline/rpc/key_value_table.h"
#include "paceline/rpc/messages.h"

namespace paceline::launch {
namespace {

using rpc::StoreOperation;
using rpc::StoreOutcome;

StoreOutcome outcome_of(const arrow::Status& status) {
  if (status.ok()) return StoreOutcome::ok;
  return status.IsCancelled() ? StoreOutcome::timeout
         : status.IsInvalid() ? StoreOutcome::invalid
                              : StoreOutcome::closed;
}

// What an operation has given, whichever it was.
struct Values {
  std::string bytes;
  int64_t number = 0;

  arrow::Status take(arrow::Result<std::string> value) {
    ARROW_ASSIGN_OR_RAISE(bytes, std::move(value));
    return arrow::Status::OK();
  }
  template <class Number>
  arrow::Status take(const arrow::Result<Number>& value) {
    if (value.ok()) number = static_cast<int64_t>(*value);
    return value.status();
  }
};

arrow::Status execute(rpc::KeyValueClient& store, const rpc::StoreRequest& request, const std::string& bytes,
                      Values& values) {
  if (const auto error = rpc::find_error(request, bytes.size())) return arrow::Status::Invalid(*error);
  constexpr double kLongestSeconds = 1e9;
  const auto timeout =
      std::chrono::milliseconds(static_cast<int64_t>(std::min(request.timeout_s, kLongestSeconds) * 1000));
  const std::string key = request.keys.empty() ? "" : request.keys.front();
  const auto expected_size = static_cast<size_t>(request.expected_size);
  switch (request.operation) {
    case StoreOperation::set:
      return store.set(key, bytes);
    case StoreOperation::get:
      return values.take(store.get(key, timeout));
    case StoreOperation::add:
      return values.take(store.add(key, request.amount));
    case StoreOperation::compare_set:
      return values.take(store.compare_set(key, bytes.substr(0, expected_size), bytes.substr(expected_size)));
    case StoreOperation::append:
      return store.append(key, bytes);
    case StoreOperation::check:
      return values.take(store.check(request.keys));
    case StoreOperation::wait:
      return store.wait(request.keys, timeout);
    case StoreOperation::delete_key:
      return values.take(store.delete_key(key));
    case StoreOperation::num_keys:
      return values.take(store.num_keys());
    case StoreOperation::unknown:
      break;
  }
  return arrow::Status::Invalid("the operation is unknown");
}

rpc::Strings missing_of(rpc::KeyValueClient& store, const rpc::Strings& keys) {
  rpc::Strings missing;
  std::ranges::copy_if(keys, std::back_inserter(missing),
                       [&](const std::string& key) { return !store.check({key}).ValueOr(true); });
  return missing;
}

}  // namespace

rpc::Envelope answer_store_request(rpc::KeyValueClient& store, const rpc::Envelope& request) {
  Values values;
  const auto wanted = rpc::unpack<rpc::StoreRequest>(request);
  const arrow::Status status = wanted.ok() ? execute(store, *wanted, request.bytes, values) : wanted.status();
  rpc::StoreReply reply{.outcome = outcome_of(status), .number = values.number, .error = status.message()};
  if (status.IsCancelled()) reply.missing = missing_of(store, wanted->keys);
  rpc::Envelope answer = rpc::pack(reply);
  answer.bytes = std::move(values.bytes);
  answer.reply_to = request.request;
  return answer;
}

}  // namespace paceline::launch
