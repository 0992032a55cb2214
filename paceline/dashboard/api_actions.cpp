// What a session does to a run: of each action so many at once.
#include <algorithm>

#include "paceline/dashboard/api.h"
#include "paceline/dashboard/api_internal.h"
#include "paceline/dashboard/problem.h"
#include "paceline/rpc/profile_kind.h"
#include "paceline/run/working_folder.h"
#include "paceline/views/run_actions.h"

namespace paceline::dashboard {
namespace {

// Whether there is such an action, with such values.
arrow::Status check(const ActionRequest& request) {
  if (request.rank < -1) return arrow::Status::Invalid("rank is ", request.rank, "; wanted one, or -1 for all");
  if (std::ranges::find(kActions, request.action) == kActions.end()) {
    std::string names;
    for (const std::string_view name : kActions) names += (names.empty() ? "" : ", ") + std::string(name);
    return arrow::Status::Invalid("there is no action \"", request.action, "\"; there are: ", names);
  }
  if (request.action != kProfile) return arrow::Status::OK();
  if (rpc::find_profile_kind(request.kind) == nullptr) {
    return arrow::Status::Invalid(rpc::no_such_profile_kind(request.kind));
  }
  if (request.seconds != 0 && (request.seconds < rpc::kShortestProfile || request.seconds > rpc::kLongestProfile)) {
    return arrow::Status::Invalid("seconds is ", request.seconds, "; wanted a whole number from ",
                                  rpc::kShortestProfile, " to ", rpc::kLongestProfile);
  }
  const bool has_steps = rpc::find_profile_kind(request.kind)->is_timeline;
  if (request.steps > 0 && !has_steps) {
    return arrow::Status::Invalid("steps is ", request.steps,
                                  "; wanted none: of the kinds of profiles only a timeline counts steps");
  }
  if (request.steps < 0 || request.steps > rpc::kMostProfiledSteps) {
    return arrow::Status::Invalid("steps is ", request.steps, "; wanted at most ", rpc::kMostProfiledSteps,
                                  ", or 0 to go by the time");
  }
  return arrow::Status::OK();
}

}  // namespace

std::atomic<int>& Api::profiles_of(const track::RunRow& run) {
  const std::lock_guard lock(profiled_mutex_);
  return profiles_of_run_[run.path];
}

arrow::Result<ActionAnswer> Api::carry_out(const ActionRequest& request, const track::RunRow& run, const Call& call) {
  ActionAnswer answer{.action = request.action};
  const std::string asker = "the dashboard, " + call.who;
  if (request.action == kStop) {
    ARROW_ASSIGN_OR_RAISE(answer.status, views::stop_run(run, asker));
  } else if (request.action == kCheckpointNow) {
    ARROW_RETURN_NOT_OK(views::ask_run_for_checkpoint(run, asker));
  } else if (request.action == kStacks) {
    ARROW_ASSIGN_OR_RAISE(answer.workers, views::stacks_of_run(run, request.rank));
  } else {
    const int64_t seconds = request.seconds > 0 ? request.seconds : rpc::default_profile_seconds(request.steps);
    const rpc::RunProfileRequest wanted{.rank = request.rank,
                                        .seconds = static_cast<double>(seconds),
                                        .who = asker,
                                        .kind = request.kind,
                                        .steps = request.steps};
    const NobodyWaits nobody_waits(given_up_, call.request);
    ARROW_ASSIGN_OR_RAISE(answer.profile, views::take_profile(run, wanted, nobody_waits.token()));
  }
  return answer;
}

arrow::Result<Response> Api::act(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const ActionRequest request, body_of<ActionRequest>(call.request));
  ARROW_ASSIGN_OR_RAISE(const track::RunRow run, row_of(call.part("id")));
  const std::string what = "\"" + request.action + "\" of run " + run.path + ", by " + call.who;
  if (options_.read_only) {
    record("refused " + what + ": read-only");
    return problem(403, "this dashboard changes nothing", "start `paceline dashboard` without --read-only");
  }
  ARROW_RETURN_NOT_OK(check(request));
  const bool is_profile = request.action == kProfile;
  const Turn turn(is_profile ? profiles_ : actions_);
  std::atomic<int> of_none{0};
  const Turn of_run(is_profile ? profiles_of(run) : of_none);
  if (turn.others() >= (is_profile ? kMostProfiles : kMostActions) || of_run.others() >= kMostProfilesOfRun) {
    return problem(429, is_profile ? "other profiles are being taken" : "other actions are being carried out",
                   "ask again in a moment");
  }
  auto answer = carry_out(request, run, call);
  record((answer.ok() ? "did " : "failed at ") + what + (answer.ok() ? "" : ": " + answer.status().message()));
  if (answer.ok()) return json_response(*answer);
  const arrow::Status& why = answer.status();
  if (why.IsExecutionError()) return problem(409, why.message(), "ask again, or look at the run's log");
  if (why.IsInvalid() && request.action == kCheckpointNow && !track::is_over(run)) {
    return problem(409, why.message(), "ask again when all ranks train, in a loop that calls checkpoint_requested()");
  }
  const bool has_ended = why.IsIOError() || (why.IsInvalid() && track::is_over(run));
  return has_ended ? problem(409, why.message(), "look at the run: it has ended, or its driver has") : problem(why);
}

}  // namespace paceline::dashboard
