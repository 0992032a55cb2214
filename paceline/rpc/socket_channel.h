// A channel over a connected Unix stream socket, on a Boost.Asio event loop.
//
// Handlers run on the thread that runs the io_context (of which there must be one). Frames (frame.h) are bounded; a
// peer that sends nonsense closes the channel with an Invalid status. A peer that does not read never blocks send():
// what the socket does not take at once is queued, and the loop writes it. A channel that is closed or destroyed with
// such a queue goes on writing on the loop until the peer has read it, has closed, or the io_context is destroyed.
#pragma once

#include <memory>

#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/channel.h"

namespace boost::asio {
class io_context;
}

namespace paceline::rpc {

/// Takes ownership of `socket`. The io_context must outlive the channel.
std::unique_ptr<Channel> make_socket_channel(boost::asio::io_context& loop, Descriptor socket);

}  // namespace paceline::rpc
