// Threads of Paceline: they block every signal, so that the user's handlers run on the user's threads only.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace paceline {

/// Starts a thread that runs `function` with every signal blocked from its first instruction on.
template <class Function>
std::thread start_thread(Function function) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // a thread inherits the mask of its starter
  std::thread thread(std::move(function));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace paceline
