#include "paceline/controller/launcher/hosts.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "paceline/core/posix/kernel_file.h"
#include "paceline/core/posix/network_interface.h"
#include "paceline/core/posix/program_path.h"

namespace paceline::controller {
namespace {

// One word to a shell, whatever is in it.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char character : word) text += character == '\'' ? std::string("'\\''") : std::string(1, character);
  return text + "'";
}

// "b" of "me@b".
std::string without_user(const std::string& host) {
  return host.substr(host.rfind('@') + 1);
}

// What ssh connects to for `host`: its configuration may name machines that nobody else knows. "" where it does not
// say.
std::string hostname_by_ssh(const std::string& host) {
  // NOLINTNEXTLINE(bugprone-command-processor): the name is quoted
  FILE* const output = ::popen(("ssh -G -- " + quoted(host) + " 2>&-").c_str(), "re");
  if (output == nullptr) return "";
  std::string text;
  char part[4096];
  for (size_t size; (size = std::fread(part, 1, sizeof part, output)) > 0;) text.append(part, size);
  ::pclose(output);
  return parse_kernel_value(text, "hostname");
}

arrow::Result<std::string> address_towards_host(const std::string& host) {
  auto address = address_towards(host);
  if (address.ok()) return address;
  const std::string known = hostname_by_ssh(host);
  return known.empty() || known == host ? address : address_towards(known);
}

bool is_of_this_machine_alone(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace

Words ssh_command(const std::string& host, const Words& agent) {
  std::string words;
  for (const std::string& word : agent) words += (words.empty() ? "" : " ") + quoted(word);
  // Otherwise a connection that is cut without a word would keep a node from being started again.
  return {"ssh", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=10", "--", host, "exec " + words};
}

arrow::Result<Words> agent_command(const Words& program, const std::string& name) {
  Words command = program;
  if (command.empty()) command = {paceline_program()};
  if (command.front().empty()) {
    return arrow::Status::Invalid(
        "there is no program \"paceline\" in PATH to start agents with; install it, or name the one of the other "
        "machines in ScalingConfig.agent_command");
  }
  for (const char* word : {"agent", "--token-file", "-", "--name"}) command.emplace_back(word);
  command.push_back(name);
  return command;
}

arrow::Result<std::string> address_for(const std::string& listen, const std::vector<std::string>& hosts) {
  if (!listen.empty()) return listen;
  std::string address;
  arrow::Status problem;
  for (const std::string& host : hosts) {
    const auto towards = address_towards_host(host);
    if (!towards.ok()) problem = towards.status();
    if (!towards.ok() || (!address.empty() && is_of_this_machine_alone(*towards))) continue;
    address = *towards;
    if (!is_of_this_machine_alone(address)) break;
  }
  if (address.empty()) {
    return arrow::Status::Invalid("which address of this machine the others reach is not known: ", problem.message(),
                                  "; name it in ScalingConfig.listen, as HOST:PORT (port 0: any)");
  }
  return (address.find(':') == std::string::npos ? address : "[" + address + "]") + ":0";
}

arrow::Result<std::unique_ptr<Launcher>> make_hosts_launcher(const LaunchParts& parts) {
  if (parts.scaling.hosts.empty())
    return arrow::Status::Invalid("ScalingConfig.hosts is empty; engine \"hosts\" needs the names of machines");
  std::vector<std::string> names;
  std::vector<AgentStart> starts;
  for (const std::string& host : parts.scaling.hosts) {
    names.push_back(without_user(host));
    if (names.back().empty() || host.starts_with('-'))
      return arrow::Status::Invalid("ScalingConfig.hosts has \"", host, "\", which is no name of a machine");
    if (std::ranges::count(names, names.back()) > 1)
      return arrow::Status::Invalid("ScalingConfig.hosts has \"", host, "\" twice; one agent serves a machine");
    ARROW_ASSIGN_OR_RAISE(const Words agent, agent_command(parts.scaling.agent_command, names.back()));
    starts.push_back({names.back(), ssh_command(host, agent)});
  }
  ARROW_ASSIGN_OR_RAISE(std::string listen, address_for(parts.scaling.listen, names));
  return std::make_unique<StartedAgents>(parts, std::move(listen), std::move(starts));
}

}  // namespace paceline::controller
