// Agents on machines that the user names, started by the user's own ssh.
//
// Whatever ssh's configuration says of a host holds: names, users, ports, keys, jumps. ssh asks for nothing, so keys
// have to be there.
#pragma once

#include <string>
#include <vector>

#include "paceline/controller/launcher/started_agents.h"

namespace paceline::controller {

/// Of ScalingConfig.hosts. Invalid: there is none, one is named twice, or none leads to an address to listen at.
arrow::Result<std::unique_ptr<Launcher>> make_hosts_launcher(const LaunchParts& parts);

/// The command that runs `agent`, a program with its arguments, on `host`: ssh gives the words to a shell there.
Words ssh_command(const std::string& host, const Words& agent);

/// A program `paceline` with its arguments for an agent called `name`. `program` is ScalingConfig.agent_command; where
/// that is empty, it is this program, if it is `paceline`, or the one in PATH. Invalid: there is none.
arrow::Result<Words> agent_command(const Words& program, const std::string& name);

/// Where to listen for agents on `hosts`: ScalingConfig.listen, or any port of the address from which this machine
/// reaches them; of several addresses the first that is not of this machine alone. Invalid: there is none; names the
/// setting.
arrow::Result<std::string> address_for(const std::string& listen, const std::vector<std::string>& hosts);

}  // namespace paceline::controller
