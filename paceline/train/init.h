// init(): the first line of main(). It makes the same program a driver or a worker.
#pragma once

namespace paceline {

/// In a driver: flushes the standard streams and forks the guardian, which starts the workers and ends them when this
/// process ends. Then returns. From then on, if main() does not catch an Error of Paceline, it is written once to
/// standard error and the program ends with exit code 1; other exceptions end the program as they always do.
///
/// In a worker: runs the train loop and ends the process; does not return. A worker is a fork of the guardian, so code
/// before init() has run only once, in the driver. In three cases it is this program executed again, including
/// everything before init(): if the driver has threads, open files or the like at this call (the run's log says so), if
/// the variable PACELINE_START is "exec" ("fork" is the default), or if workers get other values of variables that
/// libraries read when they are loaded.
///
/// Call it once. Throws UsageError for another value of PACELINE_START.
void init(int argc, char** argv);

}  // namespace paceline
