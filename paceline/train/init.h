// init(): the first line of main(). It makes the same program a driver or a worker.
#pragma once

namespace paceline {

/// In a driver: flushes the standard streams and forks the guardian, which starts the workers and ties their lives to
/// this process. Returns. From then on an Error of Paceline's that main() does not catch is written once to standard
/// error and ends the program with exit code 1; other exceptions end it as they do without Paceline.
/// In a worker: runs the train loop and ends the process; does not return. A worker is a fork of the guardian, so what
/// stands before init() has run once, in the driver. It is this program executed again, with everything before init(),
/// if the driver has threads or open files at this call (the run's log says so), if the variable PACELINE_START is
/// "exec" ("fork" is the default), or if workers get other values of variables that libraries read while they load.
/// Call once. UsageError for another value of PACELINE_START.
void init(int argc, char** argv);

}  // namespace paceline
