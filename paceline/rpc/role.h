// The roles of processes that agents start: what each is for, and how long it lives.
//
// A role is a row here and a function of the program that plays it: in the table kRoles of train/worker/worker.cpp for
// users' programs, in launch/program_worker.cpp for `paceline`, which plays one. The controller asks an agent for the
// process (controller/worker_process.h, RunLoop::start). Pure.
#pragma once

#include <string_view>

namespace paceline::rpc {

enum class Lifetime {
  attempt,  // it is a rank of its attempt: the group ends with it, and it with the group, which knows where it is
  task      // it ends by itself once its task is done; attempts may come and go meanwhile
};

struct Role {
  /// As Welcome::role has it.
  std::string_view name;
  Lifetime lifetime;
};

/// Executes the train loop.
inline constexpr Role kWorkerRole{"worker", Lifetime::attempt};
/// Runs a program of `paceline run` as a rank.
inline constexpr Role kProgramRole{"program", Lifetime::attempt};
/// Validates one checkpoint.
inline constexpr Role kValidationRole{"validation", Lifetime::task};

/// Reads datasets for the ranks of its node.
inline constexpr Role kDataRole{"data", Lifetime::task};

}  // namespace paceline::rpc
