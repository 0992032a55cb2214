// The program paceline_guardian: the guardian of a driver that could not fork it (Guardian::start).
#include <unistd.h>

#include <fcntl.h>
#include <csignal>
#include <cstdio>

#include "paceline/agent/guardian_internal.h"

int main() {
  using namespace paceline;
  if (::fcntl(agent::kLease, F_GETFD) < 0 || ::fcntl(agent::kDriver, F_GETFD) < 0) {
    std::fputs("paceline_guardian is started by Paceline, and does nothing by itself\n", stderr);
    return 2;
  }
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  agent::run_guardian(Descriptor(agent::kLease), Descriptor(agent::kDriver), std::nullopt);
}
