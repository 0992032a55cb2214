// The Python stacks of a process that runs Python, as py-spy prints them, where py-spy is installed.
//
// py-spy (PyPI) knows the insides of each Python version; writing that anew would be folly. It reads the process
// without stopping it. It is looked for beside the process's interpreter, in its virtual environment and in its PATH.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

namespace paceline::stacks {

/// Whether Python is loaded in the process with these mappings (/proc/PID/maps).
bool runs_python(const std::string& maps);

struct PythonStacks {
  std::string text;     // what py-spy printed
  std::string problem;  // why there is none, and what to do
};

/// Blocks until py-spy has ended, for `patience` at most; then it is killed.
PythonStacks python_stacks(pid_t pid, std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace paceline::stacks
