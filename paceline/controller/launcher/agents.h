// AgentsLauncher: agents that somebody else has started (`paceline agent`), on whatever machines, and that connect
// here.
//
// It listens at ScalingConfig.listen while the run lives, and writes ScalingConfig.token_file: where it is, and what
// agents prove themselves with (transport/trust_file.h), made anew for each run. The file goes with the launcher,
// unless another run has put its own in the place.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "paceline/controller/launcher/launcher.h"
#include "paceline/transport/listener.h"

namespace paceline::controller {

class AgentsLauncher final : public Launcher {
 public:
  /// Invalid when a setting is missing; names it.
  static arrow::Result<std::unique_ptr<AgentsLauncher>> make(const LaunchParts& parts);
  ~AgentsLauncher() override;

  /// Listens, and waits for ScalingConfig.nodes agents; others that come are spare, or take the place of the lost.
  arrow::Result<Launch> launch(OnAgent on_agent) override;
  void close() override;

 private:
  explicit AgentsLauncher(const LaunchParts& parts);
  void take(std::unique_ptr<rpc::Channel> agent);

  const std::string listen_;
  const std::string token_file_;
  const int64_t nodes_;
  const double lease_s_;
  std::mutex mutex_;
  OnAgent on_agent_;  // empty once closed
  std::string run_;   // that the file is of; "" before it is written
  std::unique_ptr<transport::Listener> listener_;
};

}  // namespace paceline::controller
