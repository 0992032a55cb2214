// Two channels joined in memory: the reference implementation, used between the controller and its embedded agent.
//
// Each end has a thread of its own that calls its handlers. Descriptors move, they are not duplicated.
#pragma once

#include <memory>
#include <utility>

#include "paceline/rpc/channel.h"

namespace paceline::rpc {

std::pair<std::unique_ptr<Channel>, std::unique_ptr<Channel>> make_memory_channels();

}  // namespace paceline::rpc
