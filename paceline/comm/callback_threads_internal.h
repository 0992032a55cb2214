// Threads for callbacks of futures, which may wait for other works: who ends works cannot wait.
#pragma once

#include <functional>

namespace paceline::comm {

/// Runs `callback` in a thread that does nothing else meanwhile. There are as many threads as callbacks that run at a
/// time; one that has nothing to do for some seconds ends. Thread-safe; a fork has threads of its own.
void call_apart(std::function<void()> callback);

/// Runs in this thread what calls the user's code, which may be Python's: not after stop_callbacks().
void call_user_here(std::function<void()> callback);

/// Whether stop_callbacks() is over: a future that is asked for from now on ends in the thread that asks.
bool are_callbacks_stopped();

/// call_apart() of what calls the user's code, which may be Python's: not after stop_callbacks().
void call_user_apart(std::function<void()> callback);

}  // namespace paceline::comm
