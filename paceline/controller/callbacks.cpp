#include "paceline/controller/callbacks.h"

#include <memory>
#include <optional>
#include <typeinfo>

#include "paceline/core/type_name.h"

namespace paceline::controller {

using namespace policy;
namespace {

std::string name_of(const UserCallback& callback, const std::string& own_name, const char* function) {
  return (own_name.empty() ? type_name(typeid(callback)) : own_name) + "::" + function;
}

}  // namespace

void CallbackCaller::assigned(const RunState& state) {
  call(state, "after_start", [](UserCallback& callback, const RunContext& run) { callback.after_start(run); });
}

void CallbackCaller::reported(const RunState& state, Attempt attempt, const GroupReport& report,
                              const storage::Location& checkpoint) {
  if (request_.run_config.callbacks.empty()) return;
  std::vector<Metrics> metrics;
  for (const std::optional<Json>& rank : report.shown()) metrics.emplace_back(rank.value_or(Json::object()));
  std::optional<Checkpoint> published;
  if (!checkpoint.empty()) published = CheckpointAccess::published(checkpoint);
  call(state, "after_report", [&](UserCallback& callback, RunContext run) {
    run.attempt = attempt.value;  // the next may have been decided upon already
    callback.after_report(run, metrics, published ? &*published : nullptr);
  });
}

// The next attempt may have been decided upon already.
void CallbackCaller::failed(const RunState& state, const TellCallbacks& failure) {
  call(state, "after_exception", [&](UserCallback& callback, const RunContext& run) {
    RunContext failed = run;
    failed.attempt = failure.attempt.value;
    callback.after_exception(failed, failure.errors);
  });
}

void CallbackCaller::ended(const RunState& state) {
  const RunEnding ending{to_string(state.state), state.error, state.stop_reason};
  call(state, "after_finish",
       [&](UserCallback& callback, const RunContext& run) { callback.after_finish(run, ending); });
}

void CallbackCaller::call(const RunState& state, const char* name, const Call& call) {
  for (const std::shared_ptr<UserCallback>& callback : request_.run_config.callbacks) {
    // Shared, because a user may keep the context.
    const auto stop_reason = std::make_shared<std::optional<std::string>>();
    const RunContext context{.name = request_.run_config.name.value_or(""),
                             .path = request_.location.text(),
                             .attempt = state.attempt.value,
                             .world_size = state.world_size,
                             .stop = [stop_reason](const std::string& reason) { *stop_reason = reason; }};
    std::optional<std::string> error;
    std::string own_name;
    try {
      own_name = callback->name();
      const Occupation::Scope scope(occupation_, [&] { return "callback " + name_of(*callback, own_name, name); });
      call(*callback, context);
    } catch (const std::exception& exception) {
      error = exception.what();
    } catch (...) {
      error = "an exception of unknown type";
    }
    if (!error && !*stop_reason) continue;
    const std::string what = name_of(*callback, own_name, name);
    // At the very end there is nothing left to end; the run's own result stands.
    if (error && is_terminal(state.state)) log_.error("callback " + what + " failed: " + *error);
    if (error) feed_(CallbackFailed{what, *error});
    if (*stop_reason) {
      const std::string why = (*stop_reason)->empty() ? "callback " + what : **stop_reason;
      feed_(StopRequested{.reason = why, .finish = true, .cause = StopCause::callback});
    }
  }
}

}  // namespace paceline::controller
