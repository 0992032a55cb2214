#include "paceline/controller/launcher/local_and_agents.h"

#include <utility>

#include "paceline/core/posix/network_interface.h"

namespace paceline::controller {
namespace {

agent::AgentOptions options_of(const LaunchParts& parts) {
  agent::AgentOptions options{.node = parts.node, .sample_interval_ms = agent::kSampleIntervalMs};
  if (options.node.address.empty()) {
    options.node.address = address_towards(host_of(parts.scaling.listen)).ValueOr("");
  }
  return options;
}

}  // namespace

arrow::Result<std::unique_ptr<Launcher>> LocalAndAgentsLauncher::make(const LaunchParts& parts) {
  ARROW_ASSIGN_OR_RAISE(auto elsewhere, AgentsLauncher::make(parts));
  return std::unique_ptr<Launcher>(new LocalAndAgentsLauncher(parts, std::move(elsewhere)));
}

LocalAndAgentsLauncher::LocalAndAgentsLauncher(const LaunchParts& parts, std::unique_ptr<AgentsLauncher> elsewhere)
    : here_(parts.guardian, options_of(parts)), elsewhere_(std::move(elsewhere)) {}

arrow::Result<Launch> LocalAndAgentsLauncher::launch(LaunchEvents events) {
  ARROW_RETURN_NOT_OK(here_.launch(events));
  return elsewhere_->launch(std::move(events));
}

}  // namespace paceline::controller
