// ProfileQuestion: one question of the controller for profiles, on the agent's side. It has the workers sample
// themselves, tells the guardian which of them do, and reads what the guardian's helper writes. Where threads wait, the
// helper looks at from outside: for that no worker is asked. What a heap profiler has written, the helper names.
//
// Threading: everything on the thread of the event loop. Held by shared_ptr, because the loop holds it too.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/messages.h"

namespace paceline::agent {

class ProfileQuestion : public std::enable_shared_from_this<ProfileQuestion> {
 public:
  struct Host {
    std::function<void(WorkerId, rpc::Envelope)> send_to_worker;
    std::function<void(rpc::Envelope)> send_to_guardian;
  };
  /// What came: lines of profiles, and the timelines of some workers.
  struct Found {
    std::string lines;
    std::map<WorkerId, std::string> timelines;
  };
  /// `done` is called once; perhaps from within start(), when there is nobody to ask.
  using Done = std::function<void(Found found)>;

  ProfileQuestion(boost::asio::io_context& loop, rpc::ProfileRequest wanted, Host host, Done done);

  /// `to_ask`: those of the workers that can profile themselves; `programs`: those that run a program of the user's
  /// (`paceline run`), of which the processes below them are looked at.
  void start(const std::set<WorkerId>& to_ask, const std::set<WorkerId>& programs);
  /// A worker's Sampling.
  void take(WorkerId worker, rpc::Envelope& sampling);
  /// The worker has ended.
  void lose(WorkerId worker);

 private:
  void finish();
  void take_profiles();
  void send_to_guardian(Descriptor pipe);
  void take_own(WorkerId worker, Descriptor memory);

  boost::asio::io_context& loop_;
  const rpc::ProfileRequest wanted_;
  const Host host_;
  Done done_;
  boost::asio::steady_timer deadline_;
  std::set<WorkerId> due_;
  std::map<WorkerId, Descriptor> memories_;
  std::map<WorkerId, std::string> problems_;
  Found found_;  // of what workers have profiled themselves
  bool is_taking_ = false;
};

}  // namespace paceline::agent
