#include "paceline/views/run_actions.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "paceline/core/run_layout.h"

namespace paceline::views {
namespace {

arrow::Status check_has_workers(const track::RunRow& run, const std::string& what_else = "") {
  if (!track::is_over(run)) return arrow::Status::OK();
  return arrow::Status::Invalid("the run in ", run.path, " is ", run.state, ": no worker lives", what_else);
}

arrow::Status no_such_rank(const track::RunRow& run, int64_t rank) {
  return arrow::Status::KeyError("no worker of run ", run.name, " has rank ", rank, " now; `paceline show ", run.name,
                                 "` lists them");
}

std::string first_problem(const stacks::Profiles& taken) {
  const std::vector<std::string> problems = run::described({}, taken).problems;
  return problems.empty() ? "it has said nothing" : problems.front();
}

}  // namespace

arrow::Result<Json> stop_run(const track::RunRow& run, const std::string& who) {
  if (track::is_over(run)) return arrow::Status::Invalid("the run in ", run.path, " is ", run.state, " already");
  return run::request_stop(run.path, who);
}

arrow::Status ask_run_for_checkpoint(const track::RunRow& run, const std::string& who) {
  ARROW_RETURN_NOT_OK(check_has_workers(run));
  return run::request_checkpoint(run.path, who);
}

arrow::Result<std::vector<stacks::WorkerStacks>> stacks_of_run(const track::RunRow& run, int64_t rank) {
  ARROW_RETURN_NOT_OK(check_has_workers(run));
  ARROW_ASSIGN_OR_RAISE(auto workers, run::request_stacks(run.path, rank));
  if (workers.empty() && rank >= 0) return no_such_rank(run, rank);
  return workers;
}

arrow::Result<run::RunProfile> ask_run_for_profile(const track::RunRow& run, const rpc::RunProfileRequest& wanted,
                                                   const std::stop_token& given_up) {
  ARROW_RETURN_NOT_OK(check_has_workers(run, std::string("; profiles that were taken before are on its page and in its "
                                                         "folder ") +
                                                 run_layout::kProfiles));
  ARROW_ASSIGN_OR_RAISE(run::RunProfile taken, run::request_profile(run.path, wanted, given_up));
  if (!taken.profiles.empty()) return taken;
  if (wanted.rank >= 0) return no_such_rank(run, wanted.rank);
  return arrow::Status::KeyError("no worker of run ", run.name, " lives now; `paceline show ", run.name,
                                 "` says what it waits for");
}

arrow::Result<run::KeptProfile> take_profile(const track::RunRow& run, const rpc::RunProfileRequest& wanted,
                                             const std::stop_token& given_up) {
  ARROW_ASSIGN_OR_RAISE(const run::RunProfile taken, ask_run_for_profile(run, wanted, given_up));
  if (std::ranges::all_of(taken.profiles, [](const auto& one) { return one.ways.empty(); })) {
    return arrow::Status::ExecutionError("no worker was sampled: ", first_problem(taken.profiles));
  }
  const std::string name = std::filesystem::path(taken.folder).filename().string();
  run::KeptProfile profile = run::described(
      {.name = name, .kind = wanted.kind, .time = run::time_of_profile(name), .who = wanted.who, .rank = wanted.rank},
      taken.profiles);
  if (!taken.problem.empty()) profile.problems.push_back(taken.problem);
  return profile;
}

}  // namespace paceline::views
