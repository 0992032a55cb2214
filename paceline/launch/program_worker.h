// The worker process of a launch: it joins like any worker, runs one rank's program, and ends as the program does.
//
// The process is the `paceline` program, started by an agent with the role "program". It has the heartbeats and the
// channel; the program has its standard streams, torchrun's variables (environment.h), and the rendezvous store on a
// Unix socket (store_server.h). A stop is a signal to the process group, which is the worker's and the program's.
#pragma once

#include "paceline/rpc/messages.h"

namespace paceline::launch {

/// Whether this process was started by an agent: then main() calls run_program_worker() and nothing else.
bool is_program_worker();
/// From the channel to the program's end; gives the exit code where the program did not end in another way. `command`:
/// the program, an absolute path, and its arguments.
int run_program_worker(const rpc::Strings& command);

}  // namespace paceline::launch
