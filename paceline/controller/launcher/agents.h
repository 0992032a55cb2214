// AgentsLauncher: agents that somebody else starts (`paceline agent`), on whatever machines, and that connect here.
//
// It listens while the run lives. What agents need to find it and to prove themselves (transport/trust_file.h) is made
// anew for each run; it is written to a file, or handed to whoever starts the agents. The file goes with the launcher,
// unless somebody has put another in its place; until then a second run on the same file is refused.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "paceline/controller/launcher/launcher.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/transport/listener.h"

namespace paceline::controller {

class AgentsLauncher final : public Launcher {
 public:
  struct Options {
    /// HOST:PORT.
    std::string listen;
    /// Path of the file; "": none is written.
    std::string token_file;
    /// How many agents the first group waits for; others that come are spare, or take the place of the lost.
    int64_t nodes = 1;
    /// Seconds without a sign of life after which an agent is lost.
    double lease_s = 8;
    /// Called with what an agent calls itself, before it is told of.
    std::function<void(const std::string& name)> on_name;
  };

  /// Of the settings. Invalid when one is missing; names it.
  static arrow::Result<std::unique_ptr<AgentsLauncher>> make(const LaunchParts& parts);
  explicit AgentsLauncher(Options options) : options_(std::move(options)) {}
  ~AgentsLauncher() override;

  arrow::Result<Launch> launch(LaunchEvents events) override;
  void close() override;

  /// The text that agents need, a secret. After launch().
  const std::string& trust_text() const { return trust_text_; }

 private:
  void take(std::unique_ptr<rpc::Channel> agent, const std::string& name);

  const Options options_;
  std::mutex mutex_;
  LaunchEvents events_;  // empty once closed
  std::string trust_text_;
  Descriptor token_file_;  // open, so that it stays locked
  std::unique_ptr<transport::Listener> listener_;
};

}  // namespace paceline::controller
