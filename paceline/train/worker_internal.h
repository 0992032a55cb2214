// A worker process from its Welcome to its end. Not for users.
#pragma once

namespace paceline::train {

/// Connects to the agent, runs the train loop once per assignment, and ends the process.
[[noreturn]] void run_worker();

}  // namespace paceline::train
