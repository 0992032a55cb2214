// Launcher: where agents come from. ScalingConfig.engine names one of the table in launchers.cpp.
//
// Agents come one after the other, and others may come for those that are lost: launch() only begins.
// Threading: launch() and close() are called by one thread; on_agent by any, one call at a time.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/agent/guardian.h"
#include "paceline/agent/node.h"
#include "paceline/core/clock.h"
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
};

class Launcher {
 public:
  using OnAgent = std::function<void(std::unique_ptr<rpc::Channel>)>;

  virtual ~Launcher() = default;
  /// Begins to bring up agents, and calls `on_agent` with the channel of each, also from within this call; each
  /// announces itself with NodeReady. The launcher keeps what it has started alive until it is destroyed. Call once.
  virtual arrow::Result<Launch> launch(OnAgent on_agent) = 0;
  /// Takes no agent any more: `on_agent` is not called once this returns. Idempotent.
  virtual void close() = 0;
};

/// What launchers may use, all of which outlives them.
struct LaunchParts {
  const agent::Guardian& guardian;
  const Clock& clock;
  const ScalingConfig& scaling;
  const FailureConfig& failure;
  /// What the agent in this process, if there is one, says of its node.
  agent::NodeOptions node = {};
};

/// The launcher that `parts.scaling` names. Invalid where there is none, or where it lacks a setting, which it names.
arrow::Result<std::unique_ptr<Launcher>> make_launcher(const LaunchParts& parts);
/// The names of all: what ScalingConfig.engine may be.
std::vector<std::string> launcher_names();

}  // namespace paceline::controller
