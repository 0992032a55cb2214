#include "examples/vision/run_script.h"

#include <spawn.h>
#include <sys/wait.h>

#include "paceline/core/error.h"

void run_script(const std::string& script, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), std::string(PACELINE_SOURCE_FOLDER) + "/" + script);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  int status = 0;
  const bool ran = posix_spawn(&child, pointers[0], nullptr, nullptr, pointers.data(), environ) == 0 &&
                   waitpid(child, &status, 0) == child;
  if (!ran || status != 0) {
    std::string command;
    for (const std::string& argument : arguments) command += (command.empty() ? "" : " ") + argument;
    throw paceline::StorageError("data could not be fetched; the output of this command says why: " + command);
  }
}
