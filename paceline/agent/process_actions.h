// What the processes of the agent's tests do, by a word: the program agent_test_process, and forks of the test itself.
#pragma once

#include <string>
#include <vector>

namespace paceline::agent {

/// The exit code of the process. std::out_of_range for a word that is none.
int act(const std::string& what, const std::vector<std::string>& arguments);
/// As the environment variable DO says, words apart from each other by blanks.
int act_as_told();

}  // namespace paceline::agent
