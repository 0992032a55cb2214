// The program `paceline`: the list of its commands.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "paceline/cli/command.h"
#include "paceline/cli/commands/run.h"
#include "paceline/cli/program.h"
#include "paceline/core/posix/environment.h"
#include "paceline/launch/program_worker.h"

namespace {

namespace cli = paceline::cli;

// clang-format off
constexpr cli::AddCommand kCommands[] = {
    cli::add_run_command,
    cli::add_list,
    cli::add_show,
    cli::add_logs,
    cli::add_metrics,
    cli::add_stop,
    cli::add_stacks,
    cli::add_profile,
    cli::add_dashboard,
    cli::add_checkpoint,
    cli::add_rm,
    cli::add_prune,
    cli::add_index,
    cli::add_doctor,
    cli::add_agent,
    cli::add_completion,
};
// clang-format on

}  // namespace

int main(int argc, char** argv) {
  const bool is_run = argc > 1 && std::strcmp(argv[1], "run") == 0;
  if (is_run && paceline::launch::is_program_worker()) {  // a dashboard of a driver's has a channel too
    constexpr int kBeforeTheProgram = 3;                  // paceline run --
    return paceline::launch::run_program_worker({argv + std::min(kBeforeTheProgram, argc), argv + argc});
  }
  // Otherwise gRPC writes a line of its own for each stranger that knocks, beside what Paceline says of it.
  paceline::set_own_variable("GRPC_VERBOSITY", "ERROR");
  if (is_run) return cli::run_command({argv + 2, argv + argc});
  return cli::run_program(kCommands, PACELINE_VERSION, argc, argv);
}
