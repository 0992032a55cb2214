// Profiles of workers, which the command line asks for: taken by their agents, kept in the run folder by the
// ProfileKeeper.

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/controller/event_loop/run_loop_internal.h"
#include "paceline/rpc/profile_kind.h"

namespace paceline::controller {

using namespace policy;

void RunLoop::ask_profiles(const rpc::RunProfileRequest& wanted, ProfileQuestion question) {
  if (rpc::find_profile_kind(wanted.kind) == nullptr) {  // of a later version
    rpc::Envelope reply = rpc::pack(rpc::ProfileReply{.problem = rpc::no_such_profile_kind(wanted.kind)});
    reply.reply_to = question.answers.request;
    [[maybe_unused]] const arrow::Status sent = question.answers.client->send(std::move(reply));  // it may have left
    return;
  }
  const double seconds = std::clamp<double>(wanted.seconds, rpc::kShortestProfile, rpc::kLongestProfile);
  std::map<size_t, std::vector<WorkerId>> workers_of_agent;
  for (const auto& [id, worker] : state().workers) {
    if (worker.stage == WorkerStage::gone || (wanted.rank >= 0 && worker.rank != wanted.rank)) continue;
    workers_of_agent[agent_of_node_[static_cast<size_t>(worker.node)]].push_back(id);
  }
  const std::string whose = wanted.rank >= 0 ? "of rank " + std::to_string(wanted.rank) : "of all ranks";
  const std::string who = wanted.who.empty() ? "the command line" : wanted.who;
  books_.log().info(who + " asks for a profile (" + wanted.kind + ") " + whose + ", " +
                    (wanted.steps > 0 ? std::to_string(wanted.steps) + " steps within " : "") +
                    std::to_string(std::lround(seconds)) + " s");
  run::KeptProfile& profile = question.answers.profile;
  const std::string first_name = run::profile_name(parts_.clock.now());
  profile = {.name = first_name,
             .kind = wanted.kind,
             .time = run::time_of_profile(first_name),
             .who = who,
             .rank = wanted.rank,
             .seconds = seconds};
  const auto is_taken = [this](const std::string& name) {
    return std::ranges::any_of(profile_questions_,
                               [&](const auto& one) { return one.second.answers.profile.name == name; });
  };
  for (int next = 2; is_taken(profile.name); ++next) profile.name = first_name + "_" + std::to_string(next);
  note_places(question.answers);
  const int64_t number = ++last_question_;
  for (auto& [agent, workers] : workers_of_agent) {
    rpc::Envelope envelope = rpc::pack(rpc::ProfileRequest{
        .workers = std::move(workers), .seconds = seconds, .kind = wanted.kind, .steps = wanted.steps});
    envelope.request = number;
    if (agents_[agent].channel->send(std::move(envelope)).ok()) question.due.insert(agent);
  }
  if (question.due.empty()) return answer_profiles(std::move(question));
  profile_questions_.emplace(number, std::move(question));
}

void RunLoop::receive_profiles(size_t agent, rpc::Envelope& envelope) {
  const auto question = profile_questions_.find(envelope.reply_to);
  if (question == profile_questions_.end()) return;
  if (agents_[agent].node) question->second.answers.parts.push_back({*agents_[agent].node, std::move(envelope)});
  question->second.due.erase(agent);
  if (!question->second.due.empty()) return;
  ProfileQuestion answered = std::move(question->second);
  profile_questions_.erase(question);
  answer_profiles(std::move(answered));
}

// Workers that were there when somebody asked may have been replaced before the answers come.
void RunLoop::note_places(ProfileAnswers& answers) const {
  for (const auto& [id, worker] : state().workers) answers.places[id.value] = {worker.rank, worker.node};
}

void RunLoop::answer_profiles(ProfileQuestion question) {
  note_places(question.answers);
  for (const Node& node : state().nodes) question.answers.node_names.push_back(node.name);
  if (!books_.is_ours()) question.answers.why_not_kept = "another driver has the run";
  profile_keeper_.take(std::move(question.answers));
}

}  // namespace paceline::controller
