#include "paceline/core/ending.h"

namespace paceline {

std::string to_string(FinalState state) {
  return nlohmann::json(state).get<std::string>();
}

std::optional<FinalState> final_state_of(std::string_view text) {
  using enum FinalState;
  for (const FinalState state : {finished, errored, aborted}) {
    if (to_string(state) == text) return state;
  }
  return std::nullopt;
}

std::string describe(StopCause cause) {
  switch (cause) {
    case StopCause::interrupt:
      return "the driver was interrupted";
    case StopCause::terminated:
      return "the driver got SIGTERM";
    case StopCause::command_line:
      return "asked for from the command line";
    case StopCause::callback:
      return "a callback stopped the run";
    case StopCause::time_limit:
      return "RunConfig.max_time has passed";
    case StopCause::unknown:
      break;
  }
  return "a stop was requested";
}

bool is_of_nodes(std::optional<FailureKind> kind) {
  return kind == FailureKind::node || kind == FailureKind::resources;
}

}  // namespace paceline
