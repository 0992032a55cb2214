#include "paceline/stacks/python.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>
#include <vector>

#include "paceline/core/posix/descriptor.h"

namespace paceline::stacks {
namespace {

namespace fs = std::filesystem;

// Of /proc/PID/environ and cmdline: texts that end with a zero byte.
std::vector<std::string> zero_ended(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> texts;
  for (std::string text; std::getline(file, text, '\0');) texts.push_back(text);
  return texts;
}

// Workers have their own names in place of the interpreter's path, and nobody need have activated its environment: the
// packages that they have loaded tell which it is.
fs::path folder_of_packages(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    const size_t packages = line.find("/lib/python");
    if (path == std::string::npos || packages == std::string::npos || packages <= path) continue;
    if (line.find("/site-packages/", packages) == std::string::npos) continue;
    return fs::path(line.substr(path, packages - path)) / "bin";
  }
  return {};
}

std::vector<fs::path> folders_to_look_in(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::vector<fs::path> folders;
  std::error_code error;
  const auto arguments = zero_ended(process + "/cmdline");
  if (!arguments.empty() && arguments[0].find('/') != std::string::npos) {
    folders.push_back((fs::read_symlink(process + "/cwd", error) / arguments[0]).parent_path());
  }
  folders.push_back(folder_of_packages(pid));
  for (const std::string& variable : zero_ended(process + "/environ")) {
    if (variable.starts_with("VIRTUAL_ENV=")) folders.push_back(fs::path(variable.substr(12)) / "bin");
    if (!variable.starts_with("PATH=")) continue;
    std::istringstream path(variable.substr(5));
    for (std::string folder; std::getline(path, folder, ':');) folders.emplace_back(folder);
  }
  return folders;
}

std::string find_py_spy(pid_t pid) {
  for (const fs::path& folder : folders_to_look_in(pid)) {
    const std::string candidate = folder / "py-spy";
    if (folder.is_absolute() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

constexpr const char* kNoPySpy = "install py-spy (pip install py-spy) for Python frames";

// A program that runs, and the end of the pipe to which both of its streams go; no pid where it could not be started.
struct RunningProgram {
  pid_t pid = 0;
  Descriptor output;
};

RunningProgram start(std::vector<std::string> arguments) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  RunningProgram program{.output = Descriptor(ends[0])};
  const Descriptor write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawnattr_t attributes;  // with no signal blocked, which the caller may have
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  if (::posix_spawn(&program.pid, pointers[0], &actions, &attributes, pointers.data(), environ) != 0) program.pid = 0;
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return program;
}

struct Output {
  std::string text;
  bool ended_well = false;
};

// Kills it when `patience` is over.
Output finish(pid_t pid, const Descriptor& read_end, std::chrono::milliseconds patience) {
  Output output;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  char buffer[4096];
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd event{read_end.get(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&event, 1, static_cast<int>(left.count())) <= 0) break;
    const ssize_t size = ::read(read_end.get(), buffer, sizeof buffer);
    if (size <= 0) break;
    output.text.append(buffer, static_cast<size_t>(size));
  }
  if (std::chrono::steady_clock::now() >= deadline) ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  output.ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return output;
}

PythonStacks could_not_read(const std::string& program, const Output& output) {
  std::istringstream lines(output.text);
  std::string words;
  while (words.empty() && std::getline(lines, words)) {
    if (words.starts_with("py-spy>")) words.clear();  // what it does, before it says why it could not
  }
  return {.text = "", .problem = program + " could not read the process" + (words.empty() ? "" : ": " + words)};
}

std::string indented(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) result += line.empty() ? "" : "  " + line + "\n";
  return result;
}

}  // namespace

bool runs_python(const std::string& maps) {
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(line.rfind('/') + 1);
    if (name.starts_with("libpython") || name.starts_with("python3")) return true;
  }
  return false;
}

std::string file_in_package(const std::string& file) {
  std::error_code error;
  fs::path outside = fs::path(file).parent_path();
  while (outside.has_relative_path() && fs::exists(outside / "__init__.py", error)) outside = outside.parent_path();
  return file.empty() ? file : fs::path(file).lexically_relative(outside).string();
}

PythonStacks python_stacks(pid_t pid, std::chrono::milliseconds patience) {
  const std::string program = find_py_spy(pid);
  if (program.empty()) return {.text = "", .problem = kNoPySpy};
  const RunningProgram running = start({program, "dump", "--nonblocking", "--pid", std::to_string(pid)});
  if (running.pid == 0) return could_not_read(program, {});
  const Output output = finish(running.pid, running.output, patience);
  if (output.ended_well) return {.text = indented(output.text), .problem = ""};
  return could_not_read(program, output);
}

PythonRecording::PythonRecording(pid_t pid, int64_t seconds, double rate, Threads threads)
    : program_(find_py_spy(pid)) {
  if (program_.empty()) {
    problem_ = kNoPySpy;
    return;
  }
  std::vector<std::string> arguments{program_,        "record",
                                     "--nonblocking", "--threads",
                                     "--format",      "raw",
                                     "--output",      "/dev/stdout",
                                     "--rate",        std::to_string(static_cast<int64_t>(rate)),
                                     "--duration",    std::to_string(seconds),
                                     "--pid",         std::to_string(pid)};
  if (threads == Threads::all) arguments.emplace_back("--idle");
  RunningProgram running = start(std::move(arguments));
  py_spy_ = running.pid;
  output_ = std::move(running.output);
  if (py_spy_ == 0) problem_ = program_ + " could not be started";
}

PythonRecording::PythonRecording(PythonRecording&& other) noexcept
    : program_(std::move(other.program_)),
      problem_(std::move(other.problem_)),
      py_spy_(std::exchange(other.py_spy_, 0)),
      output_(std::move(other.output_)) {}

PythonRecording::~PythonRecording() {
  if (py_spy_ == 0) return;
  ::kill(py_spy_, SIGKILL);
  ::waitpid(py_spy_, nullptr, 0);
}

PythonStacks PythonRecording::finish(std::chrono::milliseconds patience) {
  if (py_spy_ == 0) return {.text = "", .problem = problem_};
  const Output output = stacks::finish(std::exchange(py_spy_, 0), output_, patience);
  if (!output.ended_well) return could_not_read(program_, output);
  return {.text = output.text, .problem = ""};
}

}  // namespace paceline::stacks
