// Launcher: where agents come from. ScalingConfig.engine names one of the table in launchers.cpp.
//
// Agents come one after the other, and others may come for those that are lost: launch() only begins.
// Threading: launch() and close() are called by one thread; events come on any, one at a time.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/agent/guardian.h"
#include "paceline/agent/node.h"
#include "paceline/core/config/failure_config.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/rpc/channel.h"

namespace paceline::controller {

/// What a launch has begun.
struct Launch {
  /// How many agents the first group waits for.
  int64_t agents = 1;
  /// Whether agents may come later: beyond these, and for those that are lost.
  bool others_may_come = false;
  /// Whether agents that say the same name are of one machine, which is to have one: the launcher has named them.
  bool one_agent_each = false;
};

/// An agent that did not come.
struct AgentFailure {
  std::string node;
  std::string error;
  /// How many others are on their way.
  int64_t to_come = 0;
};

/// What a launcher tells of.
struct LaunchEvents {
  /// The channel of an agent, which announces itself with NodeReady.
  std::function<void(std::unique_ptr<rpc::Channel>)> on_agent;
  /// At most once for each node; it may come later after all.
  std::function<void(AgentFailure)> on_failure;
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  /// Begins to bring up agents, and tells of them, also from within this call. The launcher keeps what it has started
  /// alive until it is destroyed. Call once.
  virtual arrow::Result<Launch> launch(LaunchEvents events) = 0;
  /// Takes no agent any more: no event is told once this returns. Idempotent.
  virtual void close() = 0;
};

/// What launchers may use, all of which outlives them.
struct LaunchParts {
  const agent::Guardian& guardian;
  const ScalingConfig& scaling;
  const FailureConfig& failure;
  /// What the agent in this process, if there is one, says of its node.
  agent::NodeOptions node = {};
};

/// The engine that `scaling` means: the one that it names, or the one that fits the surroundings where it says "auto".
std::string engine_of(const ScalingConfig& scaling);

/// The launcher that `parts.scaling` names. Invalid where there is none, or where it lacks a setting, which it names.
arrow::Result<std::unique_ptr<Launcher>> make_launcher(const LaunchParts& parts);
/// The names of all: what ScalingConfig.engine may be.
std::vector<std::string> launcher_names();

}  // namespace paceline::controller
