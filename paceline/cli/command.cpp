#include "paceline/cli/command.h"

#include <unistd.h>

#include <cstdio>

#include "paceline/core/posix/host_name.h"
#include "paceline/storage/local/durable.h"

namespace paceline::cli {

std::shared_ptr<std::string> add_run(CLI::App& command) {
  const auto run = std::make_shared<std::string>();
  command.add_option("RUN", *run, "Name of a run, the beginning of one name only, or the run's folder or URI")
      ->required()
      ->type_name("");
  return run;
}

std::shared_ptr<bool> add_json(CLI::App& command) {
  const auto as_json = std::make_shared<bool>(false);
  command.add_flag("--json", *as_json, "One line of JSON instead of text");
  return as_json;
}

CLI::Option* add_output(CLI::App& command, std::string& path, const std::string& what) {
  return command.add_option("-o,--output", path, what)->transform([](const std::string& text) {
    return text.starts_with("~/") ? storage::resolve_folder(text, "").ValueOr(text) : text;
  });
}

int report(const arrow::Status& status) {
  if (status.ok()) return kDone;
  std::fprintf(stderr, "paceline: %s\n", status.message().c_str());
  return status.IsKeyError() ? kWrongUse : kFailed;
}

std::string asker(const std::string& command) {
  return "paceline " + command + " (user " + std::to_string(::getuid()) + " on " + host_name() + ", process " +
         std::to_string(::getpid()) + ")";
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace paceline::cli
