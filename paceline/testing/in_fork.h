// A check in a fork of the test program: for what a fork does with its parent's objects.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace paceline::testing {

// The thread sanitizer mixes up the threads of a fork with those of its parent, and ends the fork.
#ifdef __SANITIZE_THREAD__
constexpr bool kForksMayStartThreads = false;
#else
constexpr bool kForksMayStartThreads = true;
#endif

// The sanitizers' allocators do not free their locks in a fork, which other threads of the parent may hold: it would
// wait for ever.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kForksBesideThreadsMayAllocate = false;
#else
constexpr bool kForksBesideThreadsMayAllocate = true;
#endif

/// Whether `check` gives true there, within ten seconds. It must not use the test's assertions.
template <class Check>
bool holds_in_fork(Check check) {
  const pid_t fork = ::fork();
  if (fork == 0) {
    ::alarm(10);
    ::_exit(check() ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(fork, &status, 0) == fork && status == 0;
}

}  // namespace paceline::testing
