// Launcher: where agents come from. ScalingConfig.launcher names one of the table in launchers.cpp.
//
// Threading: one thread.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/agent/guardian.h"
#include "paceline/rpc/channel.h"

namespace paceline::controller {

class Launcher {
 public:
  virtual ~Launcher() = default;
  /// Brings up the agents; each announces itself with NodeReady on its channel. The launcher keeps the agents alive
  /// until it is destroyed.
  virtual arrow::Result<std::vector<std::unique_ptr<rpc::Channel>>> launch() = 0;
};

/// What the driver has that launchers may use; all of it outlives them.
struct DriverResources {
  const agent::Guardian& guardian;
};

/// The launcher of that name. Invalid where there is none.
arrow::Result<std::unique_ptr<Launcher>> make_launcher(const std::string& name, const DriverResources& driver);
/// The names of all: what ScalingConfig.launcher may be.
std::vector<std::string> launcher_names();

}  // namespace paceline::controller
