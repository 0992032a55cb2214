#include "paceline/rpc/envelope.h"

namespace paceline::rpc {
namespace {

arrow::Status check_version(const Json& head) {
  const auto version = head.find("version");
  if (version == head.end() || !version->is_array() || version->size() != 2 || !(*version)[0].is_number_integer() ||
      !(*version)[1].is_number_integer()) {
    return arrow::Status::Invalid("a message without a protocol version; this program speaks ", kMajorVersion, ".",
                                  kMinorVersion);
  }
  const auto major = (*version)[0].get<int64_t>();
  if (major == kMajorVersion) return arrow::Status::OK();
  return arrow::Status::Invalid("the peer speaks protocol version ", major, ".", (*version)[1].get<int64_t>(),
                                ", this program ", kMajorVersion, ".", kMinorVersion,
                                ": build both from the same release of Paceline");
}

// Absent or null fields keep their default. An integer field takes integers only: 1.5 is no request id.
template <class T>
void read_field(const Json& object, const char* name, T& value) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return;
  if constexpr (std::is_same_v<T, int64_t>) {
    if (!found->is_number_integer()) throw Json::type_error::create(302, std::string(name) + " is no integer", &*found);
  }
  value = found->get<T>();
}

Json identity_to_json(const Identity& identity) {
  return {{"epoch", identity.epoch},
          {"attempt", identity.attempt},
          {"generation", identity.generation},
          {"worker", identity.worker}};
}

void check_object(const Json& json, const char* name) {
  if (!json.is_object()) throw Json::type_error::create(302, std::string(name) + " is no object", &json);
}

Identity identity_from_json(const Json& json) {
  Identity identity;
  read_field(json, "epoch", identity.epoch.value);
  read_field(json, "attempt", identity.attempt.value);
  read_field(json, "generation", identity.generation.value);
  read_field(json, "worker", identity.worker.value);
  return identity;
}

}  // namespace

std::string encode_head(const Envelope& envelope) {
  Json head = {{"type", envelope.type},
               {"version", {kMajorVersion, kMinorVersion}},
               {"identity", identity_to_json(envelope.identity)},
               {"sequence", envelope.sequence},
               {"body", envelope.body}};
  if (envelope.request != 0) head["request"] = envelope.request;
  if (envelope.reply_to != 0) head["reply_to"] = envelope.reply_to;
  return encode_json(head);
}

arrow::Result<Envelope> decode_head(std::string_view text) {
  ARROW_ASSIGN_OR_RAISE(Json head, decode_json(text));
  if (!head.is_object()) return arrow::Status::Invalid("a message's head is not a JSON object");
  ARROW_RETURN_NOT_OK(check_version(head));
  Envelope envelope;
  try {
    read_field(head, "type", envelope.type);
    read_field(head, "sequence", envelope.sequence);
    read_field(head, "request", envelope.request);
    read_field(head, "reply_to", envelope.reply_to);
    const auto identity = head.find("identity");
    if (identity != head.end() && !identity->is_null()) {
      check_object(*identity, "identity");
      envelope.identity = identity_from_json(*identity);
    }
    const auto body = head.find("body");
    if (body != head.end() && !body->is_null()) {
      check_object(*body, "body");
      envelope.body = std::move(*body);
    }
  } catch (const Json::exception& error) {
    return arrow::Status::Invalid("a message's head does not fit its declaration: ", error.what());
  }
  if (envelope.type.empty()) return arrow::Status::Invalid("a message without a type");
  return envelope;
}

}  // namespace paceline::rpc
