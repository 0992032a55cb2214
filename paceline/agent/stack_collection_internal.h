// StackCollection: one question of the controller for stacks, on the agent's side: reads what the guardian's helper
// writes, until it closes its pipe or takes too long.
//
// Threading: everything on the thread of the event loop. Held by shared_ptr, because the loop holds it too.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "paceline/core/posix/descriptor.h"

namespace paceline::agent {

class StackCollection : public std::enable_shared_from_this<StackCollection> {
 public:
  /// `done` is called once with all that came within `patience`; not from within start().
  using Done = std::function<void(std::string lines)>;

  StackCollection(boost::asio::io_context& loop, Descriptor pipe, std::chrono::milliseconds patience, Done done);
  void start();

 private:
  void read_more();
  void finish();

  boost::asio::posix::stream_descriptor pipe_;
  boost::asio::steady_timer deadline_;
  const std::chrono::milliseconds patience_;
  Done done_;
  std::array<char, size_t{64} << 10> buffer_;
  std::string lines_;
};

}  // namespace paceline::agent
