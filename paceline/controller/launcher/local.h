// LocalLauncher: one agent, inside this process, for the machine that the driver runs on.
#pragma once

#include "paceline/agent/agent.h"
#include "paceline/controller/launcher/launcher.h"

namespace paceline::controller {

class LocalLauncher final : public Launcher {
 public:
  /// `guardian` must outlive the launcher.
  explicit LocalLauncher(const agent::Guardian& guardian, agent::AgentOptions options = {});

  /// One agent, over a channel in memory. Destruction ends the agent and every process that it has started.
  arrow::Result<Launch> launch(LaunchEvents events) override;
  void close() override {}

 private:
  const agent::Guardian& guardian_;
  const agent::AgentOptions options_;
  std::unique_ptr<agent::Agent> agent_;
};

}  // namespace paceline::controller
