#include "paceline/core/posix/broken_pipe.h"

#include <csignal>

namespace paceline {

void survive_broken_pipes() {
  struct sigaction now{};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) ::signal(SIGPIPE, SIG_IGN);
}

}  // namespace paceline
