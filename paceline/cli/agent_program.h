// AgentProgram: an agent as a process of its own, for a node of a run whose driver is elsewhere. `paceline agent` is
// one, and so is `paceline run` on every node but the first.
//
// It waits for the run's token file (transport/trust_file.h), joins the run, and serves it to its end, with a folder of
// its own for what its processes put on the disk. A token file that leads nowhere may be an earlier run's, whose driver
// was killed: while another is waited for, it is taken when it comes.
//
// Threading: one thread. From its construction on, the signals that it hears are blocked in that thread.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/agent/agent.h"
#include "paceline/agent/guardian.h"
#include "paceline/cli/leaving_notice.h"
#include "paceline/core/ending.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/messages.h"
#include "paceline/transport/trust_file.h"

namespace paceline::cli {

/// Signals, as a descriptor. Those that the process ignores from its start (nohup) are not among them.
class HeardSignals {
 public:
  explicit HeardSignals(const std::vector<int>& signals);
  /// Waits for one of them or of `others`, at most until `deadline`; gives the signal, 0 for none.
  int wait(const std::vector<int>& others, std::optional<std::chrono::steady_clock::time_point> deadline);
  /// The last that has come, 0 while none has.
  int last() const { return last_; }

 private:
  Descriptor descriptor_;
  int last_ = 0;
};

/// How a run went on this node.
struct AgentEnd {
  /// OK when the controller has ended it, or a signal. IOError when it was lost or never found.
  arrow::Status status;
  /// What the controller said last, if it did.
  std::optional<rpc::Dismissed> dismissal;
  /// That has ended it, 0 for none.
  int signal = 0;
  /// Standard input is at its end: there was no run, and there will be none.
  bool no_more = false;
};

class AgentProgram {
 public:
  struct Options {
    /// "-" is standard input: all of it, or a line for each run where others follow.
    std::string token_file;
    bool others_follow = false;
    /// What is said behind its name where it is waited for.
    std::string file_hint;
    /// Where the driver is, "HOST:PORT", in the place of what the file says; empty: as it says.
    std::vector<std::string> join;
    /// A node without a name has the host's, one without an address the one towards the driver.
    agent::AgentOptions agent;
    /// How long a driver is looked for, another token file included where the one that is there leads nowhere. Not set:
    /// a file is waited for as long as it takes; another, where that leads nowhere and no others follow, for ten
    /// minutes.
    std::optional<std::chrono::duration<double>> patience;
    /// The first of SIGINT and the like asks the controller to stop the run, and only the third ends this node by
    /// itself. Others, and without this all, end it at once.
    bool interrupts_stop_run = false;
    /// What the node's processes have, to end by themselves, when a signal ends it.
    double grace_s = 0;
    /// What is said to whoever looks on, a line each, without its end.
    std::function<void(const std::string&)> tell;
    std::vector<int> signals;
    /// Who tells the controller that this machine will be taken away; null: nobody. It outlives the program.
    LeavingNotice* leaving = nullptr;
  };

  /// `guardian` must outlive it.
  AgentProgram(Options options, const agent::Guardian& guardian)
      : options_(std::move(options)), guardian_(guardian), signals_(options_.signals) {}

  /// One run, from the wait for it to its end.
  AgentEnd serve();
  /// Before another try: until so much time has passed, or another token file than that of the last try is there. False
  /// when a signal has come.
  bool rest(std::chrono::seconds time);
  /// The last that has come, 0 for none.
  int signal() const { return signals_.last(); }

 private:
  using Moment = std::chrono::steady_clock::time_point;
  struct Joined {
    std::unique_ptr<rpc::Channel> channel;
    std::string host;  // of the driver
  };

  arrow::Result<Joined> join();
  arrow::Result<transport::TrustFile> read_trust();
  std::string read_input();
  arrow::Status wait_for_file(const std::string& known, std::optional<Moment> deadline);
  arrow::Result<std::unique_ptr<rpc::Channel>> connect(const transport::TrustFile& trust, const std::string& name,
                                                       const std::string& version, std::optional<Moment> deadline);
  void wait(agent::Agent& agent, int done);
  bool reads_file() const { return options_.token_file != "-"; }

  const Options options_;
  const agent::Guardian& guardian_;
  HeardSignals signals_;
  std::string version_;  // of the token file of the last try
  std::string input_;    // that was read and is not used yet
  bool no_more_ = false;
};

}  // namespace paceline::cli
