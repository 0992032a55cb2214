// The key-value store inside one process: the reference implementation, and what ranks that are threads meet over.
//
// Thread-safe. Waits are in real time. Clients may outlive the store's other users; they share it.
#pragma once

#include <memory>

#include "paceline/core/ids.h"
#include "paceline/rpc/key_value.h"

namespace paceline::rpc {

class MemoryKeyValueStore {
 public:
  MemoryKeyValueStore();
  ~MemoryKeyValueStore();

  /// A client for the generation that `identity` names.
  std::shared_ptr<KeyValueClient> client(const Identity& identity);
  /// Ends `attempt` and all before it: whoever waits there, or asks later, gets an IOError.
  void drop(Attempt attempt);

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace paceline::rpc
