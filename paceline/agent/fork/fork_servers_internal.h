// ForkServers: the guardian's fork servers (fork_server.h), and the processes that they are asked for.
//
// Not thread-safe. What the guardian waits for: answers and output at descriptors(), the ends of the servers'
// processes. What a server writes goes to this process's standard error; when a server is gone, its last lines are part
// of the errors of whoever waits for it.
#pragma once

#include <arrow/result.h>

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "paceline/agent/guardian_messages.h"
#include "paceline/agent/spawn_internal.h"
#include "paceline/core/ids.h"
#include "paceline/rpc/frame.h"

namespace paceline::agent {

/// Who has asked for a process.
struct ForkOrder {
  int64_t connection = 0;
  Identity identity;
};

class ForkServers {
 public:
  /// Called for each order some time after fork(), with the process, which is a child of this process now, or with the
  /// reason why there is none.
  using OnAnswer = std::function<void(const ForkOrder& order, arrow::Result<SpawnedProcess> process)>;
  explicit ForkServers(OnAnswer on_answer) : on_answer_(std::move(on_answer)) {}

  /// Asks the server that `request` names, which is started if there is none.
  void fork(const Spawn& request, const ForkOrder& order);
  /// The ends of the servers' channels, and of the pipes of their output.
  std::vector<int> descriptors() const;
  /// Something has arrived on one of them.
  void receive(int descriptor);
  /// Whether `pid` is a server, or of a server's process group: a process that is being forked.
  bool contains(pid_t pid) const;
  /// The process has ended; nothing if it is no server.
  void note_end(pid_t pid);

 private:
  struct Waiting {
    ForkOrder order;
    ForkWorker worker;
    ProcessEnds ends;
  };
  struct Server {
    pid_t pid = 0;
    Descriptor channel;
    Descriptor output;
    std::string last_output;
    rpc::FrameReader reader;
    std::deque<Waiting> waiting;  // the first has been asked for
  };
  using Servers = std::map<std::string, Server>;  // by command line and key

  arrow::Result<Servers::iterator> server_for(const Spawn& request);
  void ask(Servers::iterator server);
  void take_answers(Servers::iterator server);
  static void pass_output_on(Server& server);
  void give_up(Servers::iterator server, const std::string& why);

  OnAnswer on_answer_;
  Servers servers_;
};

}  // namespace paceline::agent
