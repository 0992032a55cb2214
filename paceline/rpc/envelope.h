// Envelope: one message of the control plane as it travels, whatever the transport.
//
// A head of JSON (type, version, identity, request ids, body), opaque bytes beside it, and, inside a machine, file
// descriptors. Typed messages are declared in messages.h; pack() and unpack() go between the two.
// Compatibility: unknown fields are ignored, absent ones have their default, another major version is refused.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "paceline/core/ids.h"
#include "paceline/core/json.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::rpc {

inline constexpr int kMajorVersion = 1;
inline constexpr int kMinorVersion = 0;

struct Envelope {
  /// Name of the message type, such as "report".
  std::string type;
  /// Who the message is from (worker to controller) or for (controller to worker).
  Identity identity;
  /// Position in the sender's stream, from 1; the channel's sender sets it.
  int64_t sequence = 0;
  /// Not 0: the sender wants a reply that carries this number in `reply_to`. Unique per sender.
  int64_t request = 0;
  /// Not 0: this answers that request.
  int64_t reply_to = 0;
  Json body = Json::object();
  std::string bytes;
  std::vector<Descriptor> descriptors;
};

/// The head of `envelope` as JSON text: all but bytes and descriptors.
std::string encode_head(const Envelope& envelope);
/// The envelope that encode_head() wrote. Invalid: not JSON, fields of a wrong type, or another major version (the
/// message names both versions).
arrow::Result<Envelope> decode_head(std::string_view text);

/// A typed message in an envelope. M is a record of messages.h with `static constexpr const char* kType`.
template <class M>
Envelope pack(const M& message, const Identity& identity = {}) {
  Envelope envelope;
  envelope.type = M::kType;
  envelope.identity = identity;
  envelope.body = message;
  return envelope;
}

/// The typed message in `envelope`. Invalid when it is of another type or a field does not fit; names both.
template <class M>
arrow::Result<M> unpack(const Envelope& envelope) {
  if (envelope.type != M::kType) {
    return arrow::Status::Invalid("unexpected message: wanted ", M::kType, ", got ", envelope.type);
  }
  if (!envelope.body.is_object()) {
    return arrow::Status::Invalid("message ", M::kType, " has a body that is no JSON object");
  }
  try {
    return envelope.body.get<M>();
  } catch (const Json::exception& error) {
    return arrow::Status::Invalid("message ", M::kType, " does not fit its declaration: ", error.what());
  }
}

}  // namespace paceline::rpc
