// One process that the agent has started: its channel, output, heartbeats and end.
//
// Threading: everything on the thread of the event loop. Held by shared_ptr, because the loop may hold it too.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/agent/agent.h"
#include "paceline/agent/output_internal.h"
#include "paceline/core/progress.h"
#include "paceline/core/rotating_log.h"
#include "paceline/rpc/channel.h"
#include "paceline/rpc/messages.h"

namespace paceline::agent {

/// What a process asks of its agent.
class ProcessHost {
 public:
  virtual ~ProcessHost() = default;
  virtual void send_to_controller(rpc::Envelope envelope) = 0;
  virtual void send_to_guardian(rpc::Envelope envelope) = 0;
  /// What goes along with a Welcome: the descriptor of the run's attachment, if it has one.
  virtual arrow::Result<std::vector<Descriptor>> attachment() const = 0;
  /// It asks for a connection with the data process; `request` is what the answer answers.
  virtual void connect_data(WorkerId worker, int64_t request) = 0;
  /// It samples itself, or says why it does not.
  virtual void take_sampling(WorkerId worker, rpc::Envelope sampling) = 0;
  /// It has joined, and serves data.
  virtual void serve_data() = 0;
  /// It runs; `welcome` is the body of its Welcome.
  virtual void watch(WorkerId worker, pid_t pid, const Json& welcome) = 0;
  /// It has joined, and notes there how far it is.
  virtual void watch_progress(WorkerId worker, std::shared_ptr<const ProgressReader> progress) = 0;
  /// The process was not started, or has ended and everything about it has been reported. Called from the loop, not
  /// from within another call of the process.
  virtual void forget(WorkerId worker) = 0;
};

class Process : public std::enable_shared_from_this<Process> {
 public:
  /// `identity` is the one of the StartProcess. The options outlive it.
  Process(boost::asio::io_context& loop, ProcessHost& host, const Identity& identity, rpc::StartProcess settings,
          const AgentOptions& options);

  /// Asks the guardian to start it.
  void start();
  /// From the controller: EndProcess, or what is for the process itself. While it starts, all of it waits.
  void deliver(rpc::Envelope envelope);
  /// From the guardian.
  void handle_guardian(rpc::Envelope envelope);
  /// What it noted last in its shared-memory word.
  rpc::ProcessProgress progress() const;
  /// Its last collectives, as messages have them.
  std::string collectives() const;
  /// Its id while it does nothing but run a program of the user's below it (`paceline run`), else 0.
  pid_t hosts_program() const;
  /// Whether the guardian has been asked to start it, and has not answered.
  bool is_starting() const { return state_ == State::starting; }
  /// Whether it gives data to the others, and can be told so.
  bool serves_data() const { return settings_.serves_data && state_ == State::running && progress_ && !channel_ended_; }
  /// The guardian has ended: kills the process as well as it can be done from here.
  void lose_guardian();

 private:
  enum class State { starting, running, ended, forgotten };

  void fail_to_start(const std::string& error);
  void begin(rpc::Envelope spawned);
  void handle_message(rpc::Envelope envelope);
  void join(rpc::Envelope& envelope);
  void expect_heartbeat();
  void report_silence();
  void end(const rpc::EndProcess& request);
  bool is_about_to_say_why() const;
  void kill();
  void kill_from_outside();
  std::shared_ptr<OutputPipe> follow(const char* stream, Descriptor pipe);
  void take_output(const rpc::Output& output);
  void finish(const ExitStatus& status, const MemoryFacts& memory = {});
  void read_crash();
  void note_channel_end();
  void report_end();
  void become_forgotten();
  /// Step and phase, as far as the process has shown them, and what a message of its end says besides.
  template <class Message>
  void fill_progress(Message& message) const;

  boost::asio::io_context& loop_;
  ProcessHost& host_;
  const Identity identity_;
  const rpc::StartProcess settings_;
  const AgentOptions& options_;

  State state_ = State::starting;
  std::vector<rpc::Envelope> waiting_;  // from the controller, until the process runs
  pid_t pid_ = 0;
  Descriptor channel_socket_;  // a duplicate: the channel owns the other
  std::unique_ptr<rpc::Channel> channel_;
  bool channel_ended_ = false;
  std::shared_ptr<OutputPipe> standard_output_;
  std::shared_ptr<OutputPipe> standard_error_;
  std::optional<RotatingLog> log_;
  std::deque<std::string> last_lines_;
  std::shared_ptr<const ProgressReader> progress_;  // null before it has joined
  Descriptor crash_memory_;
  std::optional<CrashFacts> crash_;
  bool naming_crash_ = false;
  boost::asio::posix::stream_descriptor pidfd_;
  boost::asio::steady_timer heartbeat_timer_;
  boost::asio::steady_timer grace_timer_;
  boost::asio::steady_timer kill_timer_;
  bool ending_ = false;     // asked to end, the grace timer runs
  bool heard_why_ = false;  // it has failed, and has reported why
  bool killing_ = false;    // the guardian was asked to, the kill timer runs
  bool silent_ = false;     // its silence has been reported
  bool suspended_ = false;  // by a signal
  ExitStatus status_;
  Time ended_{};  // once it has
  MemoryFacts memory_;
  SystemClock clock_;
};

}  // namespace paceline::agent
