// The program `paceline`.
#include "paceline/cli/command.h"

int main(int argc, char** argv) {
  CLI::App program("Distributed PyTorch training: looks at runs, stops them, checks their checkpoints.", "paceline");
  program.set_version_flag("--version", "paceline " PACELINE_VERSION);
  program.footer("Exit codes: 0 done, 1 it could not be done, 2 wrong use of the command line.");
  program.require_subcommand(1);
  int exit_code = paceline::cli::kDone;
  paceline::cli::add_show(program, exit_code);
  paceline::cli::add_stop(program, exit_code);
  paceline::cli::add_checkpoint(program, exit_code);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? paceline::cli::kDone : paceline::cli::kWrongUse;
  }
  return exit_code;
}
