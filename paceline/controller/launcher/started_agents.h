// StartedAgents: agents that commands start, one for each node: by ssh, srun or the like.
//
// A command gets what its agent proves itself with on standard input, and runs as long as the agent does. One that ends
// while the run lives is started again, after pauses that double up to half a minute: its node may come back, and then
// takes the place of a lost one. All of them run below the driver's guardian, so none outlives the driver.
//
// Threading: as Launcher's; a thread of its own starts commands again.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "paceline/agent/agent.h"
#include "paceline/controller/launcher/agents.h"
#include "paceline/controller/launcher/launcher.h"
#include "paceline/core/posix/process_end.h"

namespace paceline::controller {

/// How the agent of a node is started.
struct AgentStart {
  std::string node;
  /// Its first word names it in errors. It reads what the agent needs from its standard input.
  Words command;
};

class StartedAgents final : public Launcher {
 public:
  /// `listen` and ScalingConfig.nodes are the settings where those are set.
  StartedAgents(const LaunchParts& parts, std::string listen, std::vector<AgentStart> starts);
  /// Gives the commands time to end by themselves, as their agents do once the run is over.
  ~StartedAgents() override;

  arrow::Result<Launch> launch(LaunchEvents events) override;
  void close() override;

 private:
  // A node and its command.
  using SteadyTime = std::chrono::steady_clock::time_point;
  struct Place {
    AgentStart start;
    bool runs = false;
    bool has_come = false;    // since it was started last
    bool is_decided = false;  // it has come once, or its failure was told
    std::chrono::seconds pause{1};
    SteadyTime next{};
  };

  void note_come(const std::string& node);
  void note_end(int64_t process, const std::string& how);
  void receive(const rpc::Envelope& message);
  void start(size_t place);
  void start_again();

  const agent::Guardian& guardian_;
  std::vector<Place> places_;
  AgentsLauncher listener_;
  Descriptor trust_;  // sealed memory: the text that agents need
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void(AgentFailure)> on_failure_;  // empty once closed
  bool closed_ = false;
  std::map<int64_t, size_t> place_of_;  // of processes, by their numbers
  int64_t last_process_ = 0;
  std::thread thread_;
  std::unique_ptr<rpc::Channel> channel_;
  std::unique_ptr<agent::Agent> agent_;  // of this machine: it starts the commands
};

}  // namespace paceline::controller
