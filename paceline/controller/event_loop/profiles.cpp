// Profiles of workers, which the command line asks for: taken by their agents, kept in the run folder.

#include "paceline/stacks/profile.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/controller/event_loop/run_loop_internal.h"
#include "paceline/core/run_layout.h"
#include "paceline/rpc/profile_kind.h"

namespace paceline::controller {

using namespace policy;
namespace {

constexpr double kShortestProfile = 1;
constexpr double kLongestProfile = 60;

}  // namespace

void RunLoop::ask_profiles(const rpc::RunProfileRequest& wanted, ProfileQuestion question) {
  if (rpc::find_profile_kind(wanted.kind) == nullptr) {  // of a later version
    rpc::Envelope reply = rpc::pack(rpc::ProfileReply{.problem = rpc::no_such_profile_kind(wanted.kind)});
    reply.reply_to = question.request;
    [[maybe_unused]] const arrow::Status sent = question.client->send(std::move(reply));  // it may have left
    return;
  }
  const double seconds = std::clamp(wanted.seconds, kShortestProfile, kLongestProfile);
  std::map<size_t, std::vector<WorkerId>> workers_of_agent;
  for (const auto& [id, worker] : state().workers) {
    if (worker.stage == WorkerStage::gone || (wanted.rank >= 0 && worker.rank != wanted.rank)) continue;
    workers_of_agent[agent_of_node_[static_cast<size_t>(worker.node)]].push_back(id);
  }
  const std::string whose = wanted.rank >= 0 ? "of rank " + std::to_string(wanted.rank) : "of all ranks";
  const std::string who = wanted.who.empty() ? "the command line" : wanted.who;
  books_.log().info(who + " asks for a " + wanted.kind + " profile " + whose + ", " +
                    std::to_string(std::lround(seconds)) + " s");
  const Time now = parts_.clock.now();
  question.profile = {.name = run::profile_name(now),
                      .kind = wanted.kind,
                      .time = to_seconds(now),
                      .who = who,
                      .rank = wanted.rank,
                      .seconds = seconds};
  for (const auto& [other, asked] : profile_questions_) {
    if (asked.profile.name == question.profile.name) question.profile.name += "_2";  // of the same millisecond
  }
  const int64_t number = ++last_question_;
  for (auto& [agent, workers] : workers_of_agent) {
    rpc::Envelope envelope =
        rpc::pack(rpc::ProfileRequest{.workers = std::move(workers), .seconds = seconds, .kind = wanted.kind});
    envelope.request = number;
    if (agents_[agent].channel->send(std::move(envelope)).ok()) question.due.insert(agent);
  }
  if (question.due.empty()) return answer_profiles(std::move(question));
  profile_questions_.emplace(number, std::move(question));
}

void RunLoop::receive_profiles(size_t agent, const rpc::Envelope& envelope) {
  const auto question = profile_questions_.find(envelope.reply_to);
  if (question == profile_questions_.end()) return;
  const auto said = rpc::unpack<rpc::ProfileReply>(envelope).ValueOr(rpc::ProfileReply{});
  int64_t behind = 0;
  for (const int64_t bytes : said.timelines) behind += bytes;
  const int64_t end = std::max<int64_t>(0, std::ssize(envelope.bytes) - behind);
  stacks::Profiles profiles = stacks::decode_profiles(envelope.bytes.substr(0, static_cast<size_t>(end)));
  auto begin = static_cast<size_t>(end);
  for (size_t i = 0; i < profiles.size(); ++i) {
    const auto bytes = i < said.timelines.size() ? static_cast<size_t>(said.timelines[i]) : 0;
    const std::string timeline = begin <= envelope.bytes.size() ? envelope.bytes.substr(begin, bytes) : "";
    begin += bytes;
    if (!is_placed(profiles[i], agent)) continue;
    if (!timeline.empty()) question->second.timelines[profiles[i].rank] = timeline;
    question->second.found.push_back(std::move(profiles[i]));
  }
  question->second.due.erase(agent);
  if (!question->second.due.empty()) return;
  ProfileQuestion answered = std::move(question->second);
  profile_questions_.erase(question);
  answer_profiles(std::move(answered));
}

void RunLoop::answer_profiles(ProfileQuestion question) {
  std::ranges::stable_sort(question.found, {}, [](const auto& one) { return std::pair(one.rank, one.worker); });
  rpc::ProfileReply said;
  if (std::ranges::any_of(question.found, [](const auto& one) { return !one.ways.empty(); })) {
    const arrow::Status kept = keep_profiles(question);
    const std::string folder = request_.run_folder + "/" + run_layout::kProfiles + "/" + question.profile.name;
    (kept.ok() ? said.folder : said.problem) = kept.ok() ? folder : "the profile could not be kept: " + kept.message();
    if (!kept.ok()) books_.log().warning(said.problem);
  }
  rpc::Envelope reply = rpc::pack(said);
  reply.reply_to = question.request;
  reply.bytes = stacks::encode_lines(question.found);
  [[maybe_unused]] const arrow::Status sent = question.client->send(std::move(reply));  // it may have left
}

arrow::Status RunLoop::keep_profiles(const ProfileQuestion& question) {
  if (!books_.is_ours()) return arrow::Status::Cancelled("another driver has the run");
  return run::keep_profile(request_.run_folder, run::described(question.profile, question.found), question.found,
                           question.timelines, request_.run_config.name.value_or(""));
}

}  // namespace paceline::controller
