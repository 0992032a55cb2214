// ProfileKeeper: reads what agents have found of workers' profiles, keeps it in the run folder, and answers who has
// asked.
//
// Profiles have megabytes, and disks may be slow: a thread of its own does all of that, one profile after another, and
// removes older ones (run::prune_profiles()). Threading: take() and finish() on one thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "paceline/core/ids.h"
#include "paceline/rpc/channel.h"
#include "paceline/rpc/messages.h"
#include "paceline/run/kept_profiles.h"

namespace paceline::controller {

/// Where a worker was when its agent answered.
struct ProfiledPlace {
  int64_t rank = -1;
  int64_t node = 0;
};

/// What one agent has answered.
struct ProfilePart {
  int64_t node = 0;  // the agent's; what it says of other nodes' workers counts for nothing
  rpc::Envelope envelope;
};

/// One profile that somebody has asked for, once all agents have answered.
struct ProfileAnswers {
  std::shared_ptr<rpc::Channel> client;
  int64_t request = 0;
  run::KeptProfile profile;
  std::vector<ProfilePart> parts;
  std::map<int64_t, ProfiledPlace> places;  // of the workers
  std::vector<std::string> node_names;
  std::string why_not_kept;  // "" where it may be
};

class ProfileKeeper {
 public:
  /// `warn` gets what could not be kept or removed, on the keeper's thread.
  ProfileKeeper(std::string run_folder, std::string run_name, std::function<void(const std::string&)> warn);
  ~ProfileKeeper();
  ProfileKeeper(const ProfileKeeper&) = delete;
  ProfileKeeper& operator=(const ProfileKeeper&) = delete;

  void take(ProfileAnswers answers);
  /// Waits for what was taken; nothing more may be.
  void finish();

 private:
  void work();
  void settle(ProfileAnswers answers);

  const std::string run_folder_, run_name_;
  const std::function<void(const std::string&)> warn_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ProfileAnswers> waiting_;
  bool is_ending_ = false;
  std::thread thread_;  // once there is something to do
};

}  // namespace paceline::controller
