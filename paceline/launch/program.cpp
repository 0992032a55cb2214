#include "paceline/launch/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

namespace paceline::launch {
namespace {

namespace fs = std::filesystem;

bool is_executable_file(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// As execvp looks for it; an empty entry of PATH is the current directory.
std::optional<std::string> find_in_path(const std::string& name, const Variables& variables) {
  std::istringstream entries(variables("PATH").value_or("/usr/local/bin:/usr/bin:/bin"));
  for (std::string entry; std::getline(entries, entry, ':');) {
    const std::string path = (entry.empty() ? "." : entry) + "/" + name;
    if (is_executable_file(path)) return fs::absolute(path).lexically_normal().string();
  }
  return std::nullopt;
}

// A name without a slash is looked for in PATH, any other is a path.
std::optional<std::string> find_executable(const std::string& word, const Variables& variables) {
  if (word.find('/') == std::string::npos) return find_in_path(word, variables);
  return is_executable_file(word) ? std::optional(fs::absolute(word).string()) : std::nullopt;
}

arrow::Result<std::string> find_python(const Variables& variables) {
  if (const auto named = variables("PYTHON_EXEC"); named && !named->empty()) {
    if (const auto found = find_executable(*named, variables)) return *found;
    return arrow::Status::Invalid("PYTHON_EXEC is \"", *named, "\", which is no executable");
  }
  for (const char* name : {"python", "python3"}) {
    if (const auto found = find_in_path(name, variables)) return *found;
  }
  return arrow::Status::Invalid(
      "there is no python in PATH; activate a virtual environment, or name an interpreter in "
      "the variable PYTHON_EXEC");
}

enum class Kind { executable, python_file, python_module };

struct Found {
  Kind kind = Kind::executable;
  std::string path;  // of an executable, absolute
};

// A Python file that is executable too runs with the Python of the environment, not with that of its first line.
bool is_python_file(const std::string& word) {
  const std::string ending = fs::path(word).extension().string();
  if (ending == ".py" || ending == ".pyz" || ending == ".pyc") return exists(word);
  return exists(word) && !is_executable_file(word);
}

arrow::Status no_program(const std::string& word) {
  if (word.find('/') != std::string::npos || fs::path(word).extension() == ".py") {
    return arrow::Status::Invalid("there is no program ", word, " (looked from ", fs::current_path().string(), ")");
  }
  const std::string here = exists(word) ? "; is ./" + word + " meant?" : "";
  return arrow::Status::Invalid("there is no program \"", word, "\" in PATH", here);
}

arrow::Result<Found> find(const ProgramChoice& choice, const Variables& variables) {
  if (choice.words.empty() || choice.words.front().empty()) {
    return arrow::Status::Invalid("no program is given: paceline run [FLAGS] [--] PROGRAM [ARGUMENTS]");
  }
  if (choice.module) return Found{Kind::python_module, {}};
  const std::string& word = choice.words.front();
  if (!choice.no_python && is_python_file(word)) return Found{Kind::python_file, {}};
  if (const auto found = find_executable(word, variables)) return Found{Kind::executable, *found};
  if (exists(word) && word.find('/') != std::string::npos) {
    return arrow::Status::Invalid(word, " is not executable; chmod +x it, or leave out --no-python if it is Python");
  }
  return no_program(word);
}

}  // namespace

arrow::Result<rpc::Strings> command_of(const ProgramChoice& choice, const Variables& variables) {
  ARROW_ASSIGN_OR_RAISE(const Found found, find(choice, variables));
  rpc::Strings command;
  if (found.kind == Kind::executable) {
    command = {found.path};
  } else {
    ARROW_ASSIGN_OR_RAISE(const std::string python, find_python(variables));
    command = {python, "-u"};
    if (found.kind == Kind::python_module) command.emplace_back("-m");
    command.push_back(choice.words.front());
  }
  command.insert(command.end(), choice.words.begin() + 1, choice.words.end());
  return command;
}

arrow::Result<rpc::Strings> debugger_command_of(const ProgramChoice& choice, const Variables& variables,
                                                const std::string& python_folder) {
  ARROW_ASSIGN_OR_RAISE(rpc::Strings command, command_of(choice, variables));
  ARROW_ASSIGN_OR_RAISE(const Found found, find(choice, variables));
  if (found.kind != Kind::executable) {
    command.insert(command.begin() + 2, python_folder + "/paceline_debugger.py");
    return command;
  }
  const auto gdb = find_in_path("gdb", variables);
  if (!gdb) return arrow::Status::Invalid("--debug-rank needs gdb, which is not in PATH; install it");
  command.insert(command.begin(), {*gdb, "-q", "--args"});
  return command;
}

}  // namespace paceline::launch
