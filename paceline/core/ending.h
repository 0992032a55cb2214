// How a run ends, as kinds that programs compare: its final state, who stopped it, what has failed. Sentences about it
// are for people.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

/// The state that a run ends in.
enum class FinalState { finished, errored, aborted };
NLOHMANN_JSON_SERIALIZE_ENUM(FinalState, {{FinalState::finished, "finished"},
                                          {FinalState::errored, "errored"},
                                          {FinalState::aborted, "aborted"}})

/// "finished", "errored", "aborted".
std::string to_string(FinalState state);
/// The final state with this text; nothing for the states of a run that goes on.
std::optional<FinalState> final_state_of(std::string_view text);

/// Who stopped a run.
enum class StopCause {
  unknown,       // the journal does not say: version 0.1 wrote it
  interrupt,     // the driver got SIGINT, or StopSignal::stop()
  terminated,    // the driver got SIGTERM, or SIGHUP
  command_line,  // paceline stop
  callback,      // RunContext::stop()
  time_limit     // RunConfig.max_time
};
NLOHMANN_JSON_SERIALIZE_ENUM(StopCause, {{StopCause::unknown, "unknown"},
                                         {StopCause::interrupt, "interrupt"},
                                         {StopCause::terminated, "terminated"},
                                         {StopCause::command_line, "command_line"},
                                         {StopCause::callback, "callback"},
                                         {StopCause::time_limit, "time_limit"}})

/// What is said of a stop for which nobody gave a reason.
std::string describe(StopCause cause);

/// What happened to a worker, or to the whole group.
enum class FailureKind {
  exception,   // the train loop threw
  exit,        // the process ended before its train loop had returned
  silence,     // no heartbeat
  hang,        // no progress
  start,       // the process could not be started
  timeout,     // the group had not joined in time
  report,      // the ranks' reports do not fit together
  publish,     // a checkpoint could not be published
  data,        // a node's data process ended again and again
  preemption,  // the node was taken away
  node,        // the agent of the node is gone, or none came
  resources,   // the workers do not fit on the nodes
  callback,    // a callback of the user threw
  storage      // the journal or the history could not be written
};
NLOHMANN_JSON_SERIALIZE_ENUM(FailureKind, {{FailureKind::exception, "exception"},
                                           {FailureKind::exit, "exit"},
                                           {FailureKind::silence, "silence"},
                                           {FailureKind::hang, "hang"},
                                           {FailureKind::start, "start"},
                                           {FailureKind::timeout, "timeout"},
                                           {FailureKind::report, "report"},
                                           {FailureKind::publish, "publish"},
                                           {FailureKind::data, "data"},
                                           {FailureKind::preemption, "preemption"},
                                           {FailureKind::node, "node"},
                                           {FailureKind::resources, "resources"},
                                           {FailureKind::callback, "callback"},
                                           {FailureKind::storage, "storage"}})

/// Exit code of a program whose run, driver or nodes were lost or never found: another try may find them (EX_TEMPFAIL
/// of sysexits.h).
inline constexpr int kTryAgain = 75;
/// Whether a run that failed of this might go on where its engine gives other nodes.
bool is_of_nodes(std::optional<FailureKind> kind);

}  // namespace paceline
