#include "paceline/core/ending.h"

namespace paceline {

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

}  // namespace paceline
