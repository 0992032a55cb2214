#include "paceline/rpc/key_value_client.h"

#include <algorithm>

namespace paceline::rpc {
namespace {

std::string join(const Strings& keys) {
  std::string text;
  for (const std::string& key : keys) text += (text.empty() ? "" : ", ") + key;
  return text;
}

class EnvelopeKeyValueClient final : public KeyValueClient {
 public:
  EnvelopeKeyValueClient(CallStore call, const Identity& identity) : call_(std::move(call)), identity_(identity) {}

  arrow::Status set(const std::string& key, const std::string& value) override {
    return ask({.operation = StoreOperation::set, .keys = {key}}, value).status();
  }
  arrow::Result<std::string> get(const std::string& key, Timeout timeout) override {
    return value_of(ask({.operation = StoreOperation::get, .keys = {key}}, {}, timeout));
  }
  arrow::Result<int64_t> add(const std::string& key, int64_t amount) override {
    return number_of(ask({.operation = StoreOperation::add, .keys = {key}, .amount = amount}));
  }
  arrow::Result<std::string> compare_set(const std::string& key, const std::string& expected,
                                         const std::string& desired) override {
    const auto size = static_cast<int64_t>(expected.size());
    return value_of(
        ask({.operation = StoreOperation::compare_set, .keys = {key}, .expected_size = size}, expected + desired));
  }
  arrow::Status append(const std::string& key, const std::string& value) override {
    return ask({.operation = StoreOperation::append, .keys = {key}}, value).status();
  }
  arrow::Result<bool> check(const std::vector<std::string>& keys) override {
    return number_of(ask({.operation = StoreOperation::check, .keys = keys}));
  }
  arrow::Status wait(const std::vector<std::string>& keys, Timeout timeout) override {
    return ask({.operation = StoreOperation::wait, .keys = keys}, {}, timeout).status();
  }
  arrow::Result<bool> delete_key(const std::string& key) override {
    return number_of(ask({.operation = StoreOperation::delete_key, .keys = {key}}));
  }
  arrow::Result<int64_t> num_keys() override { return number_of(ask({.operation = StoreOperation::num_keys})); }

 private:
  struct Answer {
    StoreReply reply;
    std::string value;
  };

  arrow::Result<Answer> ask(StoreRequest request, std::string bytes = {}, Timeout timeout = Timeout::zero()) {
    timeout = std::max(timeout, Timeout::zero());
    request.timeout_s = std::chrono::duration<double>(timeout).count();
    Envelope envelope = pack(request, identity_);
    envelope.bytes = std::move(bytes);
    ARROW_ASSIGN_OR_RAISE(Envelope answer, call_(std::move(envelope), timeout));
    ARROW_ASSIGN_OR_RAISE(StoreReply reply, unpack<StoreReply>(answer));
    if (reply.outcome == StoreOutcome::ok) return Answer{std::move(reply), std::move(answer.bytes)};
    return error_of(request, reply);
  }

  arrow::Status error_of(const StoreRequest& request, const StoreReply& reply) const {
    if (reply.outcome == StoreOutcome::timeout) {
      return arrow::Status::Cancelled("the wait for keys of the rendezvous store timed out after ", request.timeout_s,
                                      " s; missing: ", join(reply.missing));
    }
    if (reply.outcome == StoreOutcome::closed) {
      return arrow::Status::IOError("the rendezvous store of attempt ", identity_.attempt, ", generation ",
                                    identity_.generation, " is closed: the attempt is over");
    }
    return arrow::Status::Invalid("the rendezvous store refused ", Json(request.operation).get<std::string>(), " of \"",
                                  join(request.keys), "\": ", reply.error);
  }

  static arrow::Result<std::string> value_of(arrow::Result<Answer> answer) {
    ARROW_RETURN_NOT_OK(answer.status());
    return std::move(answer->value);
  }
  static arrow::Result<int64_t> number_of(const arrow::Result<Answer>& answer) {
    ARROW_RETURN_NOT_OK(answer.status());
    return answer->reply.number;
  }

  const CallStore call_;
  const Identity identity_;
};

}  // namespace

std::shared_ptr<KeyValueClient> make_key_value_client(CallStore call, const Identity& identity) {
  return std::make_shared<EnvelopeKeyValueClient>(std::move(call), identity);
}

}  // namespace paceline::rpc
