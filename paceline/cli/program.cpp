#include "paceline/cli/program.h"

#include <cstdio>
#include <exception>
#include <string_view>

#include "paceline/cli/command.h"
#include "paceline/cli/commands/completion.h"
#include "paceline/core/spelling.h"

namespace paceline::cli {
namespace {

// "paceline checkpoint verify": how far the command line could be followed.
struct Place {
  const CLI::App* command;
  std::string words;
};

Place place_of(const CLI::App& program) {
  Place place{&program, program.get_name()};
  while (!place.command->get_subcommands().empty()) {
    place.command = place.command->get_subcommands().front();
    place.words += " " + place.command->get_name();
  }
  return place;
}

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;  // it is no user's
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> commands_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* one : command.get_subcommands(nullptr)) names.push_back(one->get_name());
  return names;
}

std::string explain(const CLI::App& program, const CLI::ParseError& error) {
  const Place place = place_of(program);
  const std::vector<std::string> unknown = program.remaining(true);
  if (unknown.empty()) return error.what();
  const std::string& word = unknown.front();
  if (word.starts_with('-')) {
    const std::string name = word.substr(0, word.find('='));
    return "`" + place.words + "` has no option " + name + suggestion(name, options_of(*place.command));
  }
  if (place.command->get_require_subcommand_min() > 0) {
    return "`" + place.words + "` has no command \"" + word + "\"" + suggestion(word, commands_of(*place.command));
  }
  return "`" + place.words + "` takes no further argument \"" + word + "\"";
}

}  // namespace

int run_program(std::span<const AddCommand> commands, const std::string& version, int argc, const char* const* argv) {
  CLI::App program(
      "Distributed PyTorch training: starts programs, shows and stops runs, and works with their checkpoints.",
      "paceline");
  program.set_version_flag("--version", "paceline " + version);
  program.footer(
      "Exit codes: 0 success; 1 the command could not do it; 2 wrong usage, also a run, rank or metric that is not "
      "there.\n"
      "`paceline COMMAND --help` explains a command.");
  program.require_subcommand(1);
  int exit_code = kDone;
  for (const AddCommand add : commands) add(program, exit_code);
  // Not parsed: the words are a command line that is not finished.
  if (argc > 1 && std::string_view(argv[1]) == kCompletionRequest) {
    return answer_completion(program, {argv + 2, argv + argc});
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help and --version
    const std::string what = explain(program, error);
    const char* joint = what.ends_with('?') ? "" : ";";
    std::fprintf(stderr, "paceline: %s%s `%s --help` explains it\n", what.c_str(), joint,
                 place_of(program).words.c_str());
    return kWrongUse;
  } catch (const std::exception& error) {  // of the standard library: a working directory that was deleted, no memory
    return report(arrow::Status::UnknownError(error.what()));
  }
  return exit_code;
}

}  // namespace paceline::cli
