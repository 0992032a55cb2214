// What the agent says about its node.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/rpc/messages.h"

namespace paceline::agent {

/// What is known of a node beyond what it finds out by itself.
struct NodeOptions {
  /// "" for the host's name.
  std::string name;
  /// Where workers on other nodes reach those of this one; "" where there are none.
  std::string address;
  /// What it offers, where that is not what it finds out: CPUs and GPUs that somebody has reserved.
  std::optional<int64_t> cores;
  std::optional<int64_t> gpus;
  /// What else it has, by name, and what it is labelled with, for ScalingConfig's resources_per_worker and
  /// label_selector. The label accelerator_type is found out where it is not given.
  Resources resources;
  rpc::StringMap labels;
  /// As rpc::NodeReady's.
  int64_t rank = -1;
  int64_t workers = 0;
};

/// This node as it is now.
rpc::NodeReady describe_node(const NodeOptions& options);

/// This process's environment, but for what names its own channel: what the processes of this node begin with.
rpc::StringMap own_environment();

/// "A100" of the "NVIDIA A100-SXM4-80GB" that NVIDIA's driver calls a GPU, as Ray names accelerators: what comes behind
/// the maker, up to what is neither a capital letter nor a digit. "" for a name without that.
std::string accelerator_type_of(const std::string& model);

/// How many GPUs a process can use: the `device_names` that name one ("nvidia0"), less where the environment variable
/// CUDA_VISIBLE_DEVICES is set: as CUDA does, it counts that list up to the first "-1" or empty entry.
int64_t count_gpus(const std::vector<std::string>& device_names, std::optional<std::string_view> visible);

}  // namespace paceline::agent
