#include "paceline/controller/profile_keeper.h"

#include <algorithm>
#include <utility>

#include "paceline/core/posix/thread.h"
#include "paceline/core/run_layout.h"

namespace paceline::controller {
namespace {

struct Found {
  stacks::Profiles profiles;
  run::Timelines timelines;
};

// Whether the agent may speak of that worker, which then has its rank and node.
bool place(stacks::Profile& profile, const ProfileAnswers& answers, int64_t node) {
  const auto place = answers.places.find(profile.worker);
  if (place == answers.places.end()) return true;
  if (place->second.node != node) return false;
  profile.rank = place->second.rank;
  profile.node = answers.node_names[static_cast<size_t>(node)];
  return true;
}

void read_part(const ProfilePart& part, const ProfileAnswers& answers, Found& found) {
  const auto said = rpc::unpack<rpc::ProfileReply>(part.envelope).ValueOr(rpc::ProfileReply{});
  const std::string& bytes = part.envelope.bytes;
  int64_t behind = 0;
  for (const int64_t size : said.timelines) behind += std::max<int64_t>(size, 0);
  const int64_t end = std::max<int64_t>(0, std::ssize(bytes) - behind);
  stacks::Profiles profiles = stacks::decode_profiles(bytes.substr(0, static_cast<size_t>(end)));
  auto begin = static_cast<size_t>(end);
  for (size_t i = 0; i < profiles.size(); ++i) {
    const auto size = i < said.timelines.size() ? static_cast<size_t>(std::max<int64_t>(said.timelines[i], 0)) : 0;
    std::string timeline = begin <= bytes.size() ? bytes.substr(begin, size) : "";
    begin += size;
    if (!place(profiles[i], answers, part.node)) continue;
    if (!timeline.empty()) found.timelines[profiles[i].rank] = std::move(timeline);
    found.profiles.push_back(std::move(profiles[i]));
  }
}

}  // namespace

ProfileKeeper::ProfileKeeper(std::string run_folder, std::string run_name, std::function<void(const std::string&)> warn)
    : run_folder_(std::move(run_folder)), run_name_(std::move(run_name)), warn_(std::move(warn)) {}

ProfileKeeper::~ProfileKeeper() {
  finish();
}

void ProfileKeeper::finish() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProfileKeeper::take(ProfileAnswers answers) {
  if (!thread_.joinable()) thread_ = start_thread([this] { work(); });
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(answers));
  }
  changed_.notify_all();
}

void ProfileKeeper::work() {
  while (true) {
    ProfileAnswers next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    settle(std::move(next));
  }
}

void ProfileKeeper::settle(ProfileAnswers answers) {
  Found found;
  for (ProfilePart& part : answers.parts) {
    read_part(part, answers, found);
    part.envelope.bytes = {};  // as large as what was made of it
  }
  std::ranges::stable_sort(found.profiles, {}, [](const auto& one) { return std::pair(one.rank, one.worker); });
  rpc::ProfileReply said;
  const bool has_any = std::ranges::any_of(found.profiles, [](const auto& one) { return !one.ways.empty(); });
  if (has_any && !answers.why_not_kept.empty()) {
    said.problem = "the profile could not be kept: " + answers.why_not_kept;
  } else if (has_any) {
    const arrow::Status kept = run::keep_profile(run_folder_, run::described(answers.profile, found.profiles),
                                                 found.profiles, found.timelines, run_name_);
    const std::string folder = run_folder_ + "/" + run_layout::kProfiles + "/" + answers.profile.name;
    (kept.ok() ? said.folder : said.problem) = kept.ok() ? folder : "the profile could not be kept: " + kept.message();
  }
  if (!said.problem.empty()) warn_(said.problem);
  rpc::Envelope reply = rpc::pack(said);
  reply.reply_to = answers.request;
  reply.bytes = stacks::encode_lines(found.profiles);
  [[maybe_unused]] const arrow::Status sent = answers.client->send(std::move(reply));  // it may have left
  const arrow::Status pruned = run::prune_profiles(run_folder_, answers.profile.name);
  if (!pruned.ok()) warn_("older profiles stay: " + pruned.message());
}

}  // namespace paceline::controller
