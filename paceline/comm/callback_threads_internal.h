// Threads for callbacks of futures, which may wait for other works: who ends works cannot wait.
#pragma once

#include <functional>

namespace paceline::comm {

/// Runs `callback` in a thread that does nothing else meanwhile. There are as many threads as callbacks that run at a
/// time; one that has nothing to do for some seconds ends. Thread-safe; a fork has threads of its own.
void call_apart(std::function<void()> callback);

/// Runs in this thread what completes a future, and so calls the user's callbacks, which may be Python's.
///
/// After stop_callbacks() it runs in another, which stay_after_stop() keeps from the callbacks: who waits for the
/// future is told before them.
void call_user_here(std::function<void()> callback);

/// As call_user_here(), by call_apart().
void call_user_apart(std::function<void()> callback);

/// After stop_callbacks() calls `wait`, without the interpreter's lock. Whether it has.
bool wait_here_after_stop(const std::function<void()>& wait);

/// The first callback of such a future. After stop_callbacks() it does not return: those behind it stay as they are,
/// since their end too would need the interpreter.
void stay_after_stop();

}  // namespace paceline::comm
