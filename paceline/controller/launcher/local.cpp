#include "paceline/controller/launcher/local.h"

#include "paceline/rpc/memory_channel.h"

namespace paceline::controller {

LocalLauncher::LocalLauncher(const agent::Guardian& guardian, agent::AgentOptions options)
    : guardian_(guardian), options_(std::move(options)) {}

arrow::Result<std::vector<std::unique_ptr<rpc::Channel>>> LocalLauncher::launch() {
  if (agent_ != nullptr) return arrow::Status::Invalid("a LocalLauncher launches once");
  auto [controller_end, agent_end] = rpc::make_memory_channels();
  ARROW_ASSIGN_OR_RAISE(agent_, agent::start_agent(std::move(agent_end), guardian_, options_));
  std::vector<std::unique_ptr<rpc::Channel>> channels;
  channels.push_back(std::move(controller_end));
  return channels;
}

}  // namespace paceline::controller
