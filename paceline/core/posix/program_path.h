// Where programs are that this process starts by their names.
#pragma once

#include <string>

namespace paceline {

/// As execvp finds it, without entries of PATH that are relative; "" where it is not there.
std::string program_in_path(const std::string& name);

/// The program `paceline`: this process's own where that is what it runs, else the one in PATH; "" where there is none.
std::string paceline_program();

}  // namespace paceline
