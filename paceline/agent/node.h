// What the agent says about its node.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/rpc/messages.h"

namespace paceline::agent {

/// This node as it is now; `name` is its name, "" for the host's.
rpc::NodeReady describe_node(const std::string& name);

/// How many GPUs a process can use: the `device_names` that name one ("nvidia0"), less where the environment variable
/// CUDA_VISIBLE_DEVICES is set: as CUDA does, it counts that list up to the first "-1" or empty entry.
int64_t count_gpus(const std::vector<std::string>& device_names, std::optional<std::string_view> visible);

}  // namespace paceline::agent
