// A KeyValueClient whose operations travel as StoreRequests: it encodes them, and somebody else carries them.
#pragma once

#include <functional>
#include <memory>

#include "paceline/rpc/key_value.h"
#include "paceline/rpc/messages.h"

namespace paceline::rpc {

/// Sends a request (the carrier numbers it) and waits for the reply, at most `timeout` for the operation itself plus
/// what the carrier allows for the way. Thread-safe. IOError when the connection is gone.
using CallStore = std::function<arrow::Result<Envelope>(Envelope request, KeyValueClient::Timeout timeout)>;

/// A client for the generation that `identity` names. Lives as long as `call` works; after that its operations fail.
std::shared_ptr<KeyValueClient> make_key_value_client(CallStore call, const Identity& identity);

}  // namespace paceline::rpc
