// Launcher: where agents come from. Local today (an agent inside the driver); Ray and Slurm join behind the same call.
#pragma once

#include <arrow/result.h>

#include <memory>

#include "paceline/rpc/channel.h"

namespace paceline::controller {

class Launcher {
 public:
  virtual ~Launcher() = default;
  /// Brings up the agents; each announces itself with NodeReady on its channel. The launcher keeps the agents alive
  /// until it is destroyed.
  virtual arrow::Result<std::vector<std::unique_ptr<rpc::Channel>>> launch() = 0;
};

}  // namespace paceline::controller
