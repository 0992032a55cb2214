#include "paceline/core/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>

namespace paceline {

LogLevel log_level(const std::string& name) {
  if (name == "DEBUG") return LogLevel::debug;
  if (name == "WARNING") return LogLevel::warning;
  if (name == "ERROR") return LogLevel::error;
  return LogLevel::info;
}

Log::Log() = default;

Log::Log(const std::string& path, Terminal terminal, LogLevel terminal_level)
    : terminal_(std::move(terminal)), terminal_level_(terminal_level) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, /*truncate=*/false);
    file_ = std::make_shared<spdlog::logger>("controller", std::move(sink));
    file_->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    file_->set_level(spdlog::level::debug);
    file_->flush_on(spdlog::level::debug);
  } catch (const spdlog::spdlog_ex& error) {
    if (terminal_) terminal_(LogLevel::warning, std::string("no controller log: ") + error.what());
  }
}

Log::~Log() = default;

void Log::leave_file() {
  if (file_) file_->set_level(spdlog::level::off);
}

void Log::write(LogLevel level, const std::string& line) {
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                          spdlog::level::warn, spdlog::level::err};
  if (terminal_ && level >= terminal_level_) terminal_(level, line);  // first: the file's disk may hang
  if (file_) file_->log(kLevels[static_cast<int>(level)], "{}", line);
}

}  // namespace paceline
