// Agents on the nodes of the Slurm job that this process belongs to, started by srun: one job step for each node.
//
// A step has all of the job's CPUs, memory and GPUs on its node. Steps are started again as those of hosts are, so a
// run goes on inside the job as long as the nodes that are left have room.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/controller/launcher/started_agents.h"

namespace paceline::controller {

/// Gives the value of an environment variable, nullopt when it is not set.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;

/// Whether this process is the script or shell of a Slurm job that has several nodes: not a task of a step, which srun
/// has started beside others.
bool is_slurm_job_of_several_nodes(const Variables& variables);

/// A node as Slurm knows it.
struct SlurmNode {
  std::string name;
  /// At which it is reached: a name or a number.
  std::string address;
};
/// What `scontrol show node --oneliner` prints. Pure; a line without a name is none.
std::vector<SlurmNode> parse_slurm_nodes(const std::string& text);

/// The command that runs `agent`, a program with its arguments, on that node of the job.
Words srun_command(const std::string& node, const Words& agent);

/// On all nodes of the job. Invalid: this is no Slurm job, or Slurm does not say which nodes it has.
arrow::Result<std::unique_ptr<Launcher>> make_slurm_launcher(const LaunchParts& parts);

/// Of this process.
std::optional<std::string> own_variable(const std::string& name);

}  // namespace paceline::controller
