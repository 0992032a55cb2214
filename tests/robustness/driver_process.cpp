#include "tests/robustness/driver_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "paceline/core/posix/pidfd.h"

extern char** environ;

namespace paceline::testing {

using namespace std::chrono_literals;

DriverProcess::DriverProcess(const std::string& program, std::vector<std::string> arguments,
                             const std::map<std::string, std::string>& environment) {
  tag_ = "PACELINE_TEST_TAG=" + std::to_string(::getpid()) + "_" + std::to_string(std::random_device{}());
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  output_pipe_ = Descriptor(ends[0]);
  const Descriptor write_end(ends[1]);

  arguments.insert(arguments.begin(), program);
  std::vector<std::string> variables{tag_};
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  const auto pointers = [](std::vector<std::string>& strings) {
    std::vector<char*> result;
    for (auto& text : strings) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  };
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), 2);
  const int error =
      ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, pointers(arguments).data(), pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + program);
}

DriverProcess::~DriverProcess() {
  if (reaped_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool DriverProcess::read_some(std::chrono::steady_clock::time_point deadline) {
  pollfd ready{.fd = output_pipe_.get(), .events = POLLIN, .revents = 0};
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0) return false;
  char buffer[4096];
  const ssize_t count = ::read(output_pipe_.get(), buffer, sizeof buffer);
  if (count <= 0) return false;
  output_.append(buffer, static_cast<size_t>(count));
  return true;
}

bool DriverProcess::wait_for_output(const std::string& text) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (output_.find(text) == std::string::npos) {
    if (!read_some(deadline)) return false;
  }
  return true;
}

void DriverProcess::signal(int number) {
  ::kill(pid_, number);
}

int DriverProcess::wait() {
  const auto deadline = std::chrono::steady_clock::now() + 120s;
  while (read_some(deadline)) {
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  reaped_ = true;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

std::vector<pid_t> DriverProcess::processes() const {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto pid = static_cast<pid_t>(std::stol(name));
    if (pid == pid_) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    std::stringstream variables;
    variables << file.rdbuf();
    if (variables.str().find(tag_) != std::string::npos) found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> DriverProcess::leftovers() const {
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (true) {
    auto found = processes();
    if (found.empty() || std::chrono::steady_clock::now() > deadline) return found;
    // A process that is ending tells through its pidfd.
    const auto process = open_pidfd(found[0]);
    if (!process.ok()) continue;
    pollfd ended{.fd = process->get(), .events = POLLIN, .revents = 0};
    ::poll(&ended, 1, 1000);
  }
}

}  // namespace paceline::testing
