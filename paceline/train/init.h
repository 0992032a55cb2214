// init(): the first line of main(). It makes the same program a driver or a worker.
#pragma once

namespace paceline {

/// In a driver: remembers the command line, with which workers will be started, and forks the guardian that ties their
/// lives to this process. Returns.
/// In a worker (a process that an agent has started): runs the train loop and ends the process; does not return.
/// Call once, before any thread exists. UsageError when threads exist already.
void init(int argc, char** argv);

}  // namespace paceline
