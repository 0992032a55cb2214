// ControlStore: a c10d store that speaks to the controller through the worker's channel.
//
// c10d backends find their peers through a store. Here it is a KeyValueClient, so that nothing listens for a rendezvous
// and only members of the generation see its keys. Thread-safe, as the client is.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>

#include "paceline/rpc/key_value.h"

namespace c10d {
class Store;
}

namespace paceline::comm {

/// `timeout` bounds every wait that names none of its own.
c10::intrusive_ptr<c10d::Store> make_control_store(std::shared_ptr<rpc::KeyValueClient> client,
                                                   std::chrono::milliseconds timeout);

}  // namespace paceline::comm
