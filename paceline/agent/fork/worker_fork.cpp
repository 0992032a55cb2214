#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "paceline/agent/fork/worker_fork_internal.h"

namespace paceline::agent {

arrow::Result<std::variant<SpawnedProcess, ForkedProcess>> fork_process(const Spawn& request) {
  if (!request.directory.empty()) {
    const Descriptor directory(::open(request.directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return errno_status("forking a worker into the directory " + request.directory);
  }
  ARROW_ASSIGN_OR_RAISE(ProcessEnds ends, make_process_ends());
  const pid_t pid = ::fork();
  if (pid < 0) return errno_status("forking a worker");
  if (pid > 0) return watch(pid, std::move(ends));
  ::setpgid(0, 0);
  return ForkedProcess{request.directory, request.environment, std::move(ends.its_output),
                       std::move(ends.its_error_output), std::move(ends.its_channel)};
}

arrow::Status ForkedProcess::take_place() {
  const arrow::Status status = take_streams_and_directory(standard_output, standard_error, directory);
  // Above the place of the channel, lest it be overwritten before it is there.
  if (channel.get() != kChannelDescriptor) ::dup2(channel.release(), kChannelDescriptor);
  (void)channel.release();
  ::fcntl(kChannelDescriptor, F_SETFD, 0);
  ::close_range(kChannelDescriptor + 1, ~0U, 0);
  (void)standard_output.release();
  (void)standard_error.release();
  environment[rpc::kChannelVariable] = std::to_string(kChannelDescriptor);
  ::clearenv();
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  return status;
}

arrow::Status take_streams_and_directory(const Descriptor& standard_output, const Descriptor& standard_error,
                                         const std::string& directory) {
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::dup2(nothing.get(), STDIN_FILENO);
  ::dup2(standard_output.get(), STDOUT_FILENO);
  ::dup2(standard_error.get(), STDERR_FILENO);
  if (!directory.empty() && ::chdir(directory.c_str()) != 0) {
    return errno_status("entering the directory " + directory);
  }
  return arrow::Status::OK();
}

}  // namespace paceline::agent
