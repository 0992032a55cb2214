// How a process of the run is to be started: its program, environment, log and Welcome. Pure but for the environment.
#pragma once

#include "paceline/controller/run_request.h"
#include "paceline/policy/action.h"
#include "paceline/policy/state.h"
#include "paceline/rpc/messages.h"

namespace paceline::controller {

/// What workers get: the driver's environment but what is Paceline's own, and what `run_config` says over it.
rpc::StringMap worker_environment(const RunConfig& run_config);

/// The variables that say something to libraries while they are loaded (OMP_, CUDA_, LD_, PYTHON…): what a process has
/// loaded with some is what its forks have.
rpc::StringMap read_when_loaded(const rpc::StringMap& environment);
/// Equal for environments of which read_when_loaded() is.
std::string fork_server_key(const rpc::StringMap& environment);

/// Threads of a worker: what was asked for, else its share of the node's cores, at least 1.
int64_t threads_of(const ScalingConfig& scaling, const policy::Node& node, int64_t workers_on_node);

/// All but what comes with the run's attachment (rpc::Attachment).
rpc::StartProcess start_message(const RunRequest& request, WorkerId worker, int64_t threads,
                                const rpc::StringMap& environment, const std::string& storage_proof);
/// As start_message(), for the validation of the checkpoint at `path`.
rpc::StartProcess start_validation_message(const RunRequest& request, const policy::StartValidation& action,
                                           const std::string& path, int64_t threads, const rpc::StringMap& environment);

/// As start_message(), for a data process.
rpc::StartProcess start_data_message(const RunRequest& request, WorkerId worker, int64_t threads,
                                     const rpc::StringMap& environment);

/// Makes `message` one for a process with a heap profiler: it is executed, because a fork has its parent's allocator.
void profile_heap(rpc::StartProcess& message);

/// Makes `message` one for a process on another machine: its environment is that of its agent, with what the RunConfig
/// says over it; it is no fork of the driver's guardian; and its lines come to the driver, which writes the log. It
/// runs in the folder with the path of the driver's; with the engine "ray" in that of its agent, which Ray has chosen.
void begin_elsewhere(rpc::StartProcess& message, const RunRequest& request);

/// `task` with what it leaves open from `otherwise`.
ValidationTaskConfig with_defaults(ValidationTaskConfig task, const ValidationTaskConfig& otherwise);

}  // namespace paceline::controller
