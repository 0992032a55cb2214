// How a StoreRequest of the program that a worker has started is answered: the operation is carried out on a store.
#pragma once

#include "paceline/rpc/envelope.h"
#include "paceline/rpc/key_value.h"

namespace paceline::launch {

/// The StoreReply to the StoreRequest in `request`. Blocks while the store does: at most for the request's timeout. One
/// that makes no sense is answered with the outcome "invalid".
rpc::Envelope answer_store_request(rpc::KeyValueClient& store, const rpc::Envelope& request);

}  // namespace paceline::launch
