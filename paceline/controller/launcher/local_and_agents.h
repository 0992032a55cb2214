// LocalAndAgentsLauncher: an agent inside this process (local.h), and agents that somebody has started (agents.h): the
// driver's machine is a node of the run like the others.
#pragma once

#include <memory>

#include "paceline/controller/launcher/agents.h"
#include "paceline/controller/launcher/local.h"

namespace paceline::controller {

class LocalAndAgentsLauncher final : public Launcher {
 public:
  /// Invalid when a setting is missing; names it. Workers elsewhere reach those here at LaunchParts::node's address;
  /// where it has none, at the host of ScalingConfig.listen.
  static arrow::Result<std::unique_ptr<Launcher>> make(const LaunchParts& parts);

  /// ScalingConfig.nodes agents are waited for, of which the one here is the first.
  arrow::Result<Launch> launch(LaunchEvents events) override;
  void close() override { elsewhere_->close(); }

 private:
  LocalAndAgentsLauncher(const LaunchParts& parts, std::unique_ptr<AgentsLauncher> elsewhere);

  LocalLauncher here_;
  const std::unique_ptr<AgentsLauncher> elsewhere_;
};

}  // namespace paceline::controller
