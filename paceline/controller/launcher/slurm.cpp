#include "paceline/controller/launcher/slurm.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "paceline/controller/launcher/hosts.h"

namespace paceline::controller {
namespace {

// "n1" of "… NodeName=n1 …".
std::string field_of(const std::string& line, const std::string& name) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
  }
  return "";
}

// Node lists are made of names, numbers, brackets and commas.
bool is_node_list(const std::string& text) {
  return !text.empty() && text.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "[],-_.") == std::string::npos;
}

arrow::Result<std::vector<SlurmNode>> nodes_of(const std::string& list) {
  if (!is_node_list(list)) return arrow::Status::Invalid("SLURM_JOB_NODELIST is \"", list, "\", which is no node list");
  std::FILE* const pipe = ::popen(("scontrol show node --oneliner '" + list + "' 2>&1").c_str(), "re");
  if (pipe == nullptr) return arrow::Status::IOError("cannot start scontrol");
  std::string text;
  char part[4096];
  for (size_t size; (size = std::fread(part, 1, sizeof part, pipe)) > 0;) text.append(part, size);
  ::pclose(pipe);  // its status is not there where the program ignores SIGCHLD
  std::vector<SlurmNode> nodes = parse_slurm_nodes(text);
  if (!nodes.empty()) return nodes;
  return arrow::Status::Invalid("`scontrol show node ", list, "` does not tell the nodes of the Slurm job: ", text);
}

}  // namespace

std::optional<std::string> own_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

bool is_slurm_job_of_several_nodes(const Variables& variables) {
  if (!variables("SLURM_JOB_ID") || variables("SLURM_STEP_ID")) return false;
  return std::atoll(variables("SLURM_JOB_NUM_NODES").value_or("1").c_str()) > 1;
}

std::vector<SlurmNode> parse_slurm_nodes(const std::string& text) {
  std::vector<SlurmNode> nodes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    SlurmNode node{field_of(line, "NodeName"), field_of(line, "NodeAddr")};
    if (node.name.empty()) continue;
    if (node.address.empty()) node.address = node.name;
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Words srun_command(const std::string& node, const Words& agent) {
  Words command = {"srun",
                   "--nodes=1",
                   "--ntasks=1",
                   "--nodelist=" + node,
                   "--overlap",
                   "--mpi=none",
                   "--kill-on-bad-exit=0",
                   "--quiet",
                   "--job-name=paceline-agent"};
  command.insert(command.end(), agent.begin(), agent.end());
  return command;
}

arrow::Result<std::unique_ptr<Launcher>> make_slurm_launcher(const LaunchParts& parts) {
  if (!own_variable("SLURM_JOB_ID")) {
    return arrow::Status::Invalid(
        "engine \"slurm\" needs a Slurm job, and this process is in none: start it by sbatch, or in the shell of "
        "salloc");
  }
  ARROW_ASSIGN_OR_RAISE(const std::vector<SlurmNode> nodes, nodes_of(own_variable("SLURM_JOB_NODELIST").value_or("")));
  std::vector<std::string> addresses;
  std::vector<AgentStart> starts;
  for (const SlurmNode& node : nodes) {
    addresses.push_back(node.address);
    ARROW_ASSIGN_OR_RAISE(const Words agent, agent_command(parts.scaling.agent_command, node.name));
    starts.push_back({node.name, srun_command(node.name, agent)});
  }
  ARROW_ASSIGN_OR_RAISE(std::string listen, address_for(parts.scaling.listen, addresses));
  return std::make_unique<StartedAgents>(parts, std::move(listen), std::move(starts));
}

}  // namespace paceline::controller
