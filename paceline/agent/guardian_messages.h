// The messages between an agent and the guardian, as frames on a connection (Guardian::connect).
//
// A process is named by the envelope's identity, which the agent chooses and never uses twice on a connection; a pid
// would not do, because it can pass to another process while a message is under way. The guardian answers every
// Spawn with a Spawned, before anything else about that process; Exited is the last about it.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/posix/exit_status.h"
#include "paceline/core/record.h"
#include "paceline/rpc/messages.h"

namespace paceline::agent {

// agent → guardian: start arguments[0] in a process group of its own. Standard input is empty. A fork server that is
// not there yet is started with this environment and directory, and stays for as long as the guardian.
#define PACELINE_SPAWN_FIELDS(FIELD)                                                                                \
  FIELD(rpc::Strings, arguments, {})                                                                                \
  FIELD(rpc::StringMap, environment, {}) /* replaces the whole environment, but for PACELINE_CHANNEL */             \
  FIELD(std::string, directory, "")      /* "" for the driver's */                                                  \
  /* the guardian forks itself instead (Guardian::fork_with_workers); `arguments` then say which program that is */ \
  FIELD(bool, fork, false)                                                                                          \
  /* command line of the fork server to fork from; empty: the process is executed */                                \
  FIELD(rpc::Strings, fork_server, {})                                                                              \
  FIELD(std::string, fork_server_key, "") /* processes with equal keys have the fork server in common */
PACELINE_MESSAGE(Spawn, "spawn", PACELINE_SPAWN_FIELDS);

// guardian → agent: with descriptors, in this order: a pidfd, the read ends of standard output and standard error, the
// agent's end of the process's channel. Without them when it was not started.
#define PACELINE_SPAWNED_FIELDS(FIELD) \
  FIELD(int64_t, pid, 0)               \
  FIELD(std::string, error, "") /* why it was not started */
PACELINE_MESSAGE(Spawned, "spawned", PACELINE_SPAWNED_FIELDS);

// agent → guardian: rpc::Leftovers, as the controller sent it: what to remove when the driver dies. Each takes the
// place of the one before on this connection; an empty one is the goodbye.

// agent → guardian: SIGKILL for the process and its tree. One that has ended already is no error.
#define PACELINE_KILL_TREE_FIELDS(FIELD)
PACELINE_MESSAGE(KillTree, "kill_tree", PACELINE_KILL_TREE_FIELDS);

// agent → guardian: take the stacks of these workers' threads (stacks/capture.h). The descriptor is the end of a pipe
// to which a helper of the guardian's writes lines of JSON (stacks/stack.h) before it closes it; there is no other
// reply. Workers that the guardian does not know are left out.
#define PACELINE_TAKE_STACKS_FIELDS(FIELD) FIELD(std::vector<WorkerId>, workers, {})
PACELINE_MESSAGE(TakeStacks, "take_stacks", PACELINE_TAKE_STACKS_FIELDS);

// agent → guardian: give the addresses that a process has noted of its crash their names. The descriptors are the end
// of a pipe, as with TakeStacks, and the crash memory (stacks/self_capture.h).
#define PACELINE_NAME_CRASH_FIELDS(FIELD)
PACELINE_MESSAGE(NameCrash, "name_crash", PACELINE_NAME_CRASH_FIELDS);

// agent → guardian: name what these workers sample (stacks/sampler.h), and sample those that run Python from outside at
// the same time; or, of the kind "off_cpu", look where all their threads wait, from outside (stacks/wait_watch.h); or,
// of the kind "memory", name what their heap profilers have written (stacks/heap_dump.h). The descriptors are the
// memories of those that sample, in their order, and, of the last message, the end of a pipe, as with TakeStacks, to
// which lines of stacks/profile.h go. A message has few descriptors: many workers take several.
#define PACELINE_TAKE_PROFILES_FIELDS(FIELD)                                                  \
  FIELD(std::vector<WorkerId>, workers, {})                                                   \
  FIELD(std::vector<bool>, sampling, {}) /* of each, whether it samples */                    \
  FIELD(rpc::Strings, problems, {})      /* of each, why it does not, "" where it need not */ \
  FIELD(double, seconds, 5.0)                                                                 \
  FIELD(double, rate, 99.0)                                                                   \
  FIELD(std::string, kind, rpc::kCpuProfile)                                                  \
  FIELD(bool, is_last, true) /* or the rest follows at once */
PACELINE_MESSAGE(TakeProfiles, "take_profiles", PACELINE_TAKE_PROFILES_FIELDS);

// guardian → agent: a signal such as SIGSTOP has suspended the process, or the process has resumed.
#define PACELINE_SUSPENDED_FIELDS(FIELD) FIELD(bool, suspended, true)
PACELINE_MESSAGE(Suspended, "suspended", PACELINE_SUSPENDED_FIELDS);

// guardian → agent: the process has ended and nothing is left of its tree.
#define PACELINE_EXITED_FIELDS(FIELD) \
  FIELD(ExitStatus, status, {})       \
  FIELD(MemoryFacts, memory, {})
PACELINE_MESSAGE(Exited, "exited", PACELINE_EXITED_FIELDS);

/// Environment variable of a fork server that names its end of its channel to the guardian, a descriptor number.
inline constexpr const char* kForkServerVariable = "PACELINE_FORK_SERVER";

// guardian → fork server: fork a process with the descriptors, in this order: its standard output, its standard error,
// its end of its channel (fork_server.h).
#define PACELINE_FORK_WORKER_FIELDS(FIELD)                                                         \
  FIELD(rpc::StringMap, environment, {}) /* the whole of it, which names the end of the channel */ \
  FIELD(std::string, directory, "")
PACELINE_MESSAGE(ForkWorker, "fork_worker", PACELINE_FORK_WORKER_FIELDS);

// guardian → fork server: nobody waits for a process now. After each Forked comes this or the next ForkWorker.
#define PACELINE_IDLE_FIELDS(FIELD)
PACELINE_MESSAGE(Idle, "idle", PACELINE_IDLE_FIELDS);

// fork server → guardian: the process is the guardian's child now, and begins with the guardian's next message.
#define PACELINE_FORKED_FIELDS(FIELD) \
  FIELD(int64_t, pid, 0)              \
  FIELD(std::string, error, "") /* why it was not forked */
PACELINE_MESSAGE(Forked, "forked", PACELINE_FORKED_FIELDS);

}  // namespace paceline::agent
