#include "paceline/controller/launcher/local.h"

#include "paceline/rpc/memory_channel.h"

namespace paceline::controller {

LocalLauncher::LocalLauncher(const agent::Guardian& guardian, agent::AgentOptions options)
    : guardian_(guardian), options_(std::move(options)) {}

arrow::Result<Launch> LocalLauncher::launch(LaunchEvents events) {
  if (agent_ != nullptr) return arrow::Status::Invalid("a LocalLauncher launches once");
  auto [controller_end, agent_end] = rpc::make_memory_channels();
  ARROW_ASSIGN_OR_RAISE(agent_, agent::start_agent(std::move(agent_end), guardian_, options_));
  events.on_agent(std::move(controller_end));
  return Launch{};
}

}  // namespace paceline::controller
