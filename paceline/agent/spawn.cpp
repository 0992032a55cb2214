#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "paceline/agent/spawn_internal.h"
#include "paceline/core/posix/pidfd.h"
#include "paceline/core/posix/socket_pair.h"

namespace paceline::agent {
namespace {

class Attributes {
 public:
  Attributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  Attributes(const Attributes&) = delete;
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

class FileActions {
 public:
  FileActions(const std::string& directory, int standard_output, int standard_error, int channel) {
    ::posix_spawn_file_actions_init(&actions_);
    if (!directory.empty()) ::posix_spawn_file_actions_addchdir_np(&actions_, directory.c_str());
    ::posix_spawn_file_actions_adddup2(&actions_, standard_output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, standard_error, STDERR_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, channel, kChannelDescriptor);
  }
  FileActions(const FileActions&) = delete;
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// As exec wants them: pointers into `strings`, null at the end.
std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

// Starts arguments[0]; `channel_variable` names its end of the channel.
arrow::Result<pid_t> start(rpc::Strings arguments, rpc::StringMap variables, const std::string& directory,
                           const char* channel_variable, const FileActions& actions) {
  if (arguments.empty()) return arrow::Status::Invalid("starting a process: no program was given");
  variables[channel_variable] = std::to_string(kChannelDescriptor);
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
  const Attributes attributes;
  pid_t pid = 0;
  errno = ::posix_spawn(&pid, arguments[0].c_str(), actions.get(), attributes.get(), pointers(arguments).data(),
                        pointers(environment).data());
  if (errno == 0) return pid;
  const std::string place = directory.empty() ? "" : " in the directory " + directory;
  return errno_status("starting the program " + arguments[0] + place);
}

}  // namespace

arrow::Result<std::pair<Descriptor, Descriptor>> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_status("making a pipe");
  return std::pair{Descriptor(ends[0]), Descriptor(ends[1])};
}

arrow::Result<ProcessEnds> make_process_ends() {
  ARROW_ASSIGN_OR_RAISE(auto output, make_pipe());
  ARROW_ASSIGN_OR_RAISE(auto error_output, make_pipe());
  ARROW_ASSIGN_OR_RAISE(auto channel, make_socket_pair());
  return ProcessEnds{std::move(output.first),  std::move(error_output.first),  std::move(channel.first),
                     std::move(output.second), std::move(error_output.second), std::move(channel.second)};
}

arrow::Result<SpawnedProcess> watch(pid_t pid, ProcessEnds ends) {
  ::setpgid(pid, pid);
  auto pidfd = open_pidfd(pid);
  if (!pidfd.ok()) {
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return pidfd.status();
  }
  return SpawnedProcess{pid, *std::move(pidfd), std::move(ends.standard_output), std::move(ends.standard_error),
                        std::move(ends.channel)};
}

arrow::Result<SpawnedForkServer> spawn_fork_server(const Spawn& request) {
  ARROW_ASSIGN_OR_RAISE(auto channel, make_socket_pair());
  ARROW_ASSIGN_OR_RAISE(auto output, make_pipe());
  const FileActions actions(request.directory, output.second.get(), output.second.get(), channel.second.get());
  ARROW_ASSIGN_OR_RAISE(const pid_t pid, start(request.fork_server, request.environment, request.directory,
                                               kForkServerVariable, actions));
  return SpawnedForkServer{pid, std::move(channel.first), std::move(output.first)};
}

arrow::Result<SpawnedProcess> spawn(const Spawn& request) {
  ARROW_ASSIGN_OR_RAISE(ProcessEnds ends, make_process_ends());
  const FileActions actions(request.directory, ends.its_output.get(), ends.its_error_output.get(),
                            ends.its_channel.get());
  ARROW_ASSIGN_OR_RAISE(const pid_t pid, start(request.arguments, request.environment, request.directory,
                                               rpc::kChannelVariable, actions));
  return watch(pid, std::move(ends));
}

}  // namespace paceline::agent
