// StoreServer: the rendezvous store for the program that a worker has started, on an abstract Unix socket.
//
// It speaks StoreRequest and StoreReply (rpc/messages.h) as frames (rpc/frame.h); requests are numbered by the client,
// one at a time on a connection. Only processes of the same user are served; there is no file to leave behind.
// Threading: a thread that accepts, and one for each connection, with every signal blocked. Destruction closes all
// connections and waits for calls of the store that are under way: end those that wait first.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <string>

#include "paceline/rpc/key_value.h"

namespace paceline::launch {

class StoreServer {
 public:
  virtual ~StoreServer() = default;
  /// The socket's name, with '@' for the zero byte that it begins with.
  virtual const std::string& address() const = 0;
};

/// IOError when no socket can be made.
arrow::Result<std::unique_ptr<StoreServer>> serve_store(std::shared_ptr<rpc::KeyValueClient> store);

}  // namespace paceline::launch
