// A process for the agent's tests to start: its first argument says what it does (process_actions.h).
#include <csignal>

#include "paceline/agent/process_actions.h"

// The thread sanitizer lets every process sleep for a second at its exit; here an agent waits for that, and the
// environment that could say otherwise is not handed down.
extern "C" const char* __tsan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "atexit_sleep_ms=0";
}

int main(int argc, char** argv) {
  // Sanitizers and shells would otherwise turn a test's crash into another exit.
  std::signal(SIGSEGV, SIG_DFL);
  return paceline::agent::act(argv[1], {argv + 2, argv + argc});
}
