// The controller's log: everything goes to a file of the run, and important lines to the terminal as well.
//
// Thread-safe. One Log for a run; parts receive it by constructor. A log that cannot write never stops a run.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace spdlog {
class logger;
}

namespace paceline {

enum class LogLevel { debug, info, warning, error };

/// From "DEBUG", "INFO", "WARNING" or "ERROR"; anything else is info.
LogLevel log_level(const std::string& name);

class Log {
 public:
  /// Receives the lines that are meant for the terminal.
  using Terminal = std::function<void(LogLevel, const std::string&)>;

  /// Drops every line: for tests.
  Log();
  /// Appends to `path` (nothing if it cannot be opened) and gives lines from `terminal_level` on to `terminal`.
  Log(const std::string& path, Terminal terminal, LogLevel terminal_level);
  ~Log();

  void debug(const std::string& line) { write(LogLevel::debug, line); }
  void info(const std::string& line) { write(LogLevel::info, line); }
  void warning(const std::string& line) { write(LogLevel::warning, line); }
  void error(const std::string& line) { write(LogLevel::error, line); }
  void write(LogLevel level, const std::string& line);
  /// From here on lines go to the terminal alone.
  void leave_file();

 private:
  std::shared_ptr<spdlog::logger> file_;
  Terminal terminal_;
  LogLevel terminal_level_ = LogLevel::info;
};

}  // namespace paceline
