#include "paceline/cli/commands/run.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "paceline/agent/node.h"
#include "paceline/cli/command.h"
#include "paceline/cli/commands/run_flags.h"
#include "paceline/cli/commands/run_nodes.h"
#include "paceline/cli/ray/job.h"
#include "paceline/controller/launcher/ray.h"
#include "paceline/controller/stop_signal.h"
#include "paceline/core/config/launch_overrides.h"
#include "paceline/core/error.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/launch/launch.h"
#include "paceline/track/character_width.h"

namespace paceline::cli {
namespace {

constexpr const char* kUsage =
    "Starts a program on every rank of a worker group, as torchrun does. Keeps the state and the logs of the run, and\n"
    "restarts it after failures. Programs written for torchrun run unchanged, in Python and C++. A program that calls\n"
    "fit() is started once, as the driver of its own workers.\n\n"
    "Usage: paceline run [FLAGS] [--] PROGRAM [ARGUMENTS]\n";

constexpr const char* kExamples =
    "Examples:\n"
    "  paceline run -n 2 train.py --epochs 3                 two ranks of a Python script\n"
    "  paceline run --nproc-per-node=gpu --max-restarts=3 -m my.train\n"
    "                                                        a module on every GPU, up to three restarts\n"
    "  paceline run -n 4 --name mnist -- build/my_training   a C++ program, as run \"mnist\"\n"
    "  paceline run -n 2 --debug-rank 1 train.py             rank 1 under pdb, with the terminal\n"
    "  paceline run -n 8 --hosts node1,node2 train.py        eight ranks on each of two machines, by ssh\n"
    "  paceline run -n 8 --hosts nodes.txt --ship my_training\n"
    "                                                        a C++ program with fit(), eight workers on these "
    "machines\n"
    "  paceline run --nnodes 2 --node-rank 1 --master-addr node0 --nproc-per-node 8 train.py\n"
    "                                                        the second of two nodes; the first has --node-rank 0\n"
    "  paceline run -n 4 --engine ray --address http://head:8265 --working-dir build -- ./my_training\n"
    "                                                        on the nodes of a Ray cluster, as a job there\n\n"
    "Exit codes, on all nodes: 0 every rank has ended with 0; otherwise the exit code of the rank that failed first, "
    "or 128 + the\n"
    "signal that ended it; 128 + the signal that stopped the run (130 after Ctrl-C); 1 the run could not begin; 2 "
    "wrong\n"
    "usage; 75 nodes were lost or did not come; on other nodes than the first, it was that.\n";

constexpr size_t kUsageColumns = 35;

void print_table(bool torchruns) {
  for (const RunFlagInfo& flag : run_flag_table()) {
    if (flag.torchruns != torchruns) continue;
    const std::string usage = flag.usage();
    const size_t columns = track::columns_of(usage);
    std::printf("  %s%*s%s\n", usage.c_str(), static_cast<int>(std::max<size_t>(columns + 1, kUsageColumns) - columns),
                "", flag.what.c_str());
  }
}

void print_help() {
  std::printf("%s\nFlags:\n", kUsage);
  print_table(false);
  std::printf("\ntorchrun's flags:\n");
  print_table(true);
  std::printf("\nFlags may be abbreviated where that is unambiguous, as with torchrun.\n\n%s", kExamples);
}

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// What the configuration says of a field is said of the flag that has set it.
std::string in_flags(std::string text) {
  constexpr std::pair<const char*, const char*> kFlags[] = {
      {"RunConfig.name", "--name"},
      {"RunConfig.storage_path", "--storage-path"},
      {"FailureConfig.stop_grace_s", "--shutdown-timeout"},
      {"FailureConfig.max_failures", "--max-restarts"},
  };
  for (const auto& [field, flag] : kFlags) {
    if (const size_t at = text.find(field); at != std::string::npos) text.replace(at, std::strlen(field), flag);
  }
  return text;
}

launch::Launch launch_of(const RunFlags& flags) {
  launch::Launch launch;
  launch.num_workers = flags.num_workers.value_or(1);
  launch.program = flags.program.words.front();
  launch.run_config.name = flags.name;
  if (flags.storage_path) launch.run_config.storage_path = *flags.storage_path;
  launch.run_config.failure_config.max_failures = flags.max_restarts.value_or(0);
  launch.run_config.failure_config.stop_grace_s = flags.shutdown_timeout_s;
  if (flags.debug_rank) launch.run_config.log_level = "WARNING";
  launch.run_config.quiet = flags.quiet;
  launch.plan.role = flags.role;
  launch.plan.run_id = flags.run_id;
  launch.plan.max_restarts = flags.max_restarts.value_or(0);
  launch.plan.master_address = flags.master_address;
  launch.plan.master_port = flags.master_port.value_or(0);
  launch.plan.virtual_local_rank = flags.virtual_local_rank;
  return launch;
}

// This process is the first of several nodes. The port that the flags name is where it listens; the programs' own is
// another.
void set_nodes(const RunFlags& flags, const NodePart& part, launch::Launch& launch) {
  launch.nodes = launch::Nodes{.least = flags.nodes.least,
                               .most = flags.nodes.most,
                               .last_call_s = flags.nodes.last_call_s,
                               .listen = part.listen,
                               .token_file = part.token_file,
                               .here = part.node};
  FailureConfig& failure = launch.run_config.failure_config;
  failure.start_timeout_s = flags.nodes.join_timeout_s;
  failure.node_timeout_s = flags.nodes.lease_s.value_or(failure.node_timeout_s);
  launch.plan.master_port = 0;
}

// A rank under a debugger has the terminal's foreground; this process takes it back.
class Foreground {
 public:
  static arrow::Result<std::unique_ptr<Foreground>> lend() {
    Descriptor terminal(::open("/dev/tty", O_RDWR | O_CLOEXEC));
    if (!terminal) return arrow::Status::Invalid("--debug-rank needs a terminal, and this process has none");
    std::signal(SIGTTOU, SIG_IGN);  // it writes from the background
    return std::make_unique<Foreground>(std::move(terminal));
  }
  explicit Foreground(Descriptor terminal) : terminal_(std::move(terminal)) {}
  Foreground(const Foreground&) = delete;
  ~Foreground() { ::tcsetpgrp(terminal_.get(), ::getpgrp()); }

 private:
  const Descriptor terminal_;
};

void print_notes(const RunFlags& flags, const std::vector<std::string>& notes) {
  if (flags.quiet) return;
  for (const std::string& note : notes) std::fprintf(stderr, "paceline: %s\n", note.c_str());
}

// A program that calls fit() starts its workers itself: this process becomes that program.
arrow::Status become_driver(const RunFlags& flags, rpc::Strings command) {
  print_notes(flags, flags.driver_notes);
  LaunchOverrides overrides{.num_workers = flags.num_workers,
                            .name = flags.name,
                            .storage_path = flags.storage_path,
                            .max_failures = flags.max_restarts,
                            .debug_rank = flags.debug_rank};
  if (flags.quiet || flags.debug_rank) overrides.quiet = true;
  if (flags.engine) overrides.engine = *flags.engine;
  if (flags.engine == "ray" && flags.num_workers) overrides.num_workers = *flags.num_workers * flags.nodes.most;
  if (!flags.hosts.empty()) {
    overrides.engine = "hosts";
    overrides.hosts = flags.hosts;
  }
  if (flags.ship) overrides.ship = true;
  ::setenv(kLaunchVariable, encode_json(overrides).c_str(), 1);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  return errno_status("cannot start " + command.front());
}

// The job of a Ray cluster that this process belongs to has machines for it.
ScalingConfig ray_scaling(const RunFlags& flags) {
  return {.num_workers = flags.num_workers.value_or(1) * flags.nodes.most,
          .resources_per_worker = flags.ray.resources_per_worker,
          .engine = "ray",
          .placement_strategy = flags.nodes.are_several() ? "SPREAD" : "PACK"};
}

arrow::Result<int> run(const RunFlags& flags) {
  const bool on_ray = flags.engine == "ray";
  if (on_ray && !controller::RayMachines::are_offered()) return run_as_ray_job(flags, variable);
  launch::Launch launch = launch_of(flags);
  try {
    launch.run_config.validate();
  } catch (const ConfigError& error) {
    return arrow::Status::Invalid(error.what());
  }
  ARROW_ASSIGN_OR_RAISE(launch.plan.command, launch::command_of(flags.program, variable));
  const bool is_driver = flags.driver || launch::is_paceline_driver(launch.plan.command.front());
  if (is_driver && flags.nodes.are_several() && !on_ray) {
    return arrow::Status::Invalid("--nnodes is ", flags.nodes.most, ", but ", flags.program.words.front(),
                                  " calls fit(), and starts its workers itself: --hosts or its ScalingConfig say on "
                                  "which nodes");
  }
  if (is_driver) return become_driver(flags, launch.plan.command);
  if (flags.ship) {
    return arrow::Status::Invalid("--ship sends C++ programs that call fit(), and ", flags.program.words.front(),
                                  " is none; it has to be on each machine");
  }
  launch.hosts = flags.hosts;
  NodePart part;
  if (on_ray) {
    launch.ray = ray_scaling(flags);
  } else if (flags.nodes.are_several()) {
    ARROW_ASSIGN_OR_RAISE(part, find_part(flags));
    print_notes(flags, part.notes);
    if (!part.is_first) return serve_node(flags, part, launch.plan.command);
    set_nodes(flags, part, launch);
  }
  launch.plan.python_folder = launch::python_folder();
  const bool debugs = flags.debug_rank.has_value();
  launch.shows_output = [debugs, shown = flags.shown](int64_t local_rank, const std::string& stream) {
    return !debugs && shown.shows(local_rank, stream);
  };
  std::unique_ptr<Foreground> foreground;
  if (flags.debug_rank) {
    ARROW_ASSIGN_OR_RAISE(foreground, Foreground::lend());
    launch.plan.debug_rank = *flags.debug_rank;
    ARROW_ASSIGN_OR_RAISE(launch.plan.debug_command,
                          launch::debugger_command_of(flags.program, variable, launch.plan.python_folder));
  }
  ARROW_ASSIGN_OR_RAISE(const agent::Guardian guardian, agent::Guardian::fork_now());
  controller::StopSignal stop;
  std::vector<int> signals = flags.signals;
  const bool hangup = std::erase(signals, SIGHUP) > 0;
  const controller::StopHandlers handlers(stop, signals, hangup ? std::vector{SIGHUP} : std::vector<int>{});
  ARROW_ASSIGN_OR_RAISE(const launch::LaunchOutcome outcome, launch::run_launch(launch, guardian, stop));
  if (!outcome.error.empty()) std::fprintf(stderr, "paceline: %s\n", outcome.error.c_str());
  return outcome.exit_code;
}

}  // namespace

void add_run_command(CLI::App& program, int&) {
  CLI::App* command = program.add_subcommand("run", "Start a program on every rank, as torchrun does");
  command->set_help_flag("");
  // Not to be parsed: so that shells complete them.
  for (const RunFlagInfo& flag : run_flag_table()) {
    if (flag.value.empty()) {
      command->add_flag(flag.names);
    } else {
      command->add_option(flag.names);
    }
  }
}

int run_command(const std::vector<std::string>& arguments) {
  const rpc::NodeReady node = agent::describe_node({});
  const auto flags = parse_run_flags(arguments, {.cores = node.cores, .gpus = node.gpus, .variables = variable});
  if (!flags.ok()) {
    report(flags.status());
    return kWrongUse;
  }
  if (flags->help) {
    print_help();
    return kDone;
  }
  print_notes(*flags, flags->notes);
  const auto exit_code = run(*flags);
  if (exit_code.ok()) return *exit_code;
  return report(exit_code.status().WithMessage(in_flags(exit_code.status().message())));
}

}  // namespace paceline::cli
