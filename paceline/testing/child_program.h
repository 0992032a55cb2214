// The test program started again as a child: for what must not happen to the test itself, such as being killed.
//
// Fail points are read from the environment once a process, so each case of a fail-point test needs a fresh one. The
// test program's main() calls run_child_if_asked() first.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>

namespace paceline::testing {

/// What a child can do, by name; gets the folder, gives the exit code.
using ChildActions = std::map<std::string, std::function<int(const std::string& folder)>>;

inline void run_child_if_asked(int argc, char** argv, const ChildActions& actions) {
  if (argc == 4 && std::strcmp(argv[1], "--child") == 0) std::exit(actions.at(argv[2])(argv[3]));
}

/// Starts `action` on `folder` in a fresh process with these fail points.
inline pid_t start_child(const std::string& action, const std::string& folder, const std::string& fail_points) {
  const std::string assignment = "PACELINE_FAIL_POINTS=" + fail_points;
  const pid_t child = ::fork();
  if (child == 0) {
    ::putenv(const_cast<char*>(assignment.c_str()));
    ::execl("/proc/self/exe", "child", "--child", action.c_str(), folder.c_str(), nullptr);
    ::_exit(127);
  }
  return child;
}

/// What waitpid() gives of it: its end or, with WUNTRACED, that it is stopped.
inline int wait_for_child(pid_t child, int options = 0) {
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, options) != child) ADD_FAILURE() << "no child";
  return status;
}

/// Runs `action` so; gives waitpid's status.
inline int run_child(const std::string& action, const std::string& folder, const std::string& fail_points) {
  return wait_for_child(start_child(action, folder, fail_points));
}

inline bool was_killed(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}
inline bool ended_well(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace paceline::testing
