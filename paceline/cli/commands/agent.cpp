// paceline agent --token-file FILE [--join HOST:PORT…] [--name NAME] [--address ADDRESS] [--label NAME=VALUE…]
//                [--resource NAME=AMOUNT…] [--cpus N] [--gpus N] [--keep] [--with-parent]
#include <sys/prctl.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "paceline/agent/guardian.h"
#include "paceline/cli/agent_program.h"
#include "paceline/cli/command.h"
#include "paceline/cli/leaving_notice.h"
#include "paceline/core/posix/network_interface.h"
#include "paceline/transport/flight_link.h"

namespace paceline::cli {
namespace {

struct AgentFlags {
  std::string token_file;
  std::vector<std::string> join;
  agent::NodeOptions node;
  bool keep = false;
  bool with_parent = false;
};

// At once, also into a file or a pipe.
void tell(const std::string& text) {
  print("paceline agent: " + text + "\n");
  std::fflush(stdout);
}

int run_agent(const AgentFlags& flags) {
  auto guardian = agent::Guardian::fork_now();  // before there are threads
  if (!guardian.ok()) return report(guardian.status());
  LeavingNotice leaving;
  AgentProgram program({.token_file = flags.token_file,
                        .others_follow = flags.keep,
                        .join = flags.join,
                        .agent = {.node = flags.node},
                        .tell = tell,
                        .signals = {SIGTERM, SIGINT, SIGHUP},
                        .leaving = &leaving},
                       *guardian);
  if (flags.with_parent) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  constexpr std::chrono::seconds kFirstRest{1}, kLongestRest{30};
  std::chrono::seconds rest = kFirstRest;
  do {
    const AgentEnd end = program.serve();
    if (end.signal != 0) return 128 + end.signal;
    if (end.no_more) return kDone;
    if (end.status.ok()) {
      rest = kFirstRest;
      const std::string why = end.dismissal ? end.dismissal->reason : "";
      tell("the run is over" + (why.empty() ? "" : ": " + why));  // python/paceline/_ray/agent_actor.py reads it
    } else if (flags.keep) {
      tell("the run is lost: " + end.status.message());
      if (!program.rest(std::exchange(rest, std::min(2 * rest, kLongestRest)))) return 128 + program.signal();
    } else {
      report(end.status);
      return end.status.IsIOError() ? kTryAgain : kFailed;
    }
  } while (flags.keep);
  return kDone;
}

// "zone=a" of --label zone=a.
CLI::Validator named_value() {
  return CLI::Validator(
      [](std::string& text) {
        const size_t equals = text.find('=');
        return equals == std::string::npos || equals == 0 ? "wanted NAME=VALUE, got \"" + text + "\"" : std::string();
      },
      "NAME=VALUE");
}

// "disk=2" of --resource disk=2.
CLI::Validator named_amount() {
  return CLI::Validator(
      [](std::string& text) {
        const size_t equals = text.find('=');
        const bool is_named = equals != std::string::npos && equals > 0;
        char* end = nullptr;
        const char* const amount = is_named ? text.c_str() + equals + 1 : "";
        const double value = std::strtod(amount, &end);
        const bool is_amount = end != amount && *end == '\0' && std::isfinite(value) && value >= 0;
        return is_amount ? std::string() : "wanted NAME=AMOUNT, the amount a number of 0 or more, got \"" + text + "\"";
      },
      "NAME=AMOUNT");
}

CLI::Validator host_and_port() {
  return CLI::Validator(
      [](std::string& text) {
        const auto address = transport::parse_address(text);
        if (address.ok() && address->second == 0) return "wanted HOST:PORT, the port another than 0, got " + text;
        return address.status().message();
      },
      "HOST:PORT");
}

CLI::Validator known_host() {
  return CLI::Validator(
      [](std::string& text) {
        const auto addresses = addresses_of(text);
        return addresses.ok() ? std::string()
                              : "wanted an address or a name of this machine: " + addresses.status().message();
      },
      "ADDRESS");
}

CLI::Validator count() {
  return CLI::Validator(
      [](std::string& text) {
        int64_t value = -1;
        const char* const end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, value);
        const bool is_count = parsed.ec == std::errc() && parsed.ptr == end && value >= 0;
        return is_count ? std::string() : "wanted a whole number of 0 or more, got \"" + text + "\"";
      },
      "NUMBER");
}

}  // namespace

void add_agent(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "agent", "Offer this machine to a run: start, watch and end its workers here for as long as it lasts");
  command->footer(
      "Example: paceline agent --token-file /shared/run.token\n"
      "SIGUSR1 tells the run that this machine will be taken away in two minutes, or in as many seconds as the "
      "signal's\n"
      "value says (kill -q 90 -s USR1 PID): its loss is no failure then.\n"
      "Exit codes: 0 the run is over, 75 its driver was lost or not found, 1 anything else");
  const auto flags = std::make_shared<AgentFlags>();
  const auto labels = std::make_shared<std::vector<std::string>>();
  const auto resources = std::make_shared<std::vector<std::string>>();
  command
      ->add_option("--token-file", flags->token_file,
                   "File that the driver writes (ScalingConfig.token_file); waited for; - is standard input")
      ->required();
  command->add_option("--join", flags->join, "HOST:PORT of the driver, where the file's does not lead there")
      ->check(host_and_port());
  command->add_option("--name", flags->node.name, "Name of this node; default: the host's");
  command
      ->add_option("--address", flags->node.address,
                   "Address at which workers on other nodes reach those here; default: the one towards the driver")
      ->check(known_host());
  command->add_option("--label", *labels, "A label of this node, for label_selector; may be repeated")
      ->check(named_value());
  command->add_option("--resource", *resources, "What this node has besides, for resources_per_worker; may be repeated")
      ->check(named_amount());
  command->add_option("--cpus", flags->node.cores, "CPUs to offer; default: those of this machine that it may use")
      ->check(count());
  command->add_option("--gpus", flags->node.gpus, "GPUs to offer; default: those of this machine that it sees")
      ->check(count());
  command->add_flag(
      "--keep", flags->keep,
      "Stay after a run, and join the next for which the file is written, or the next line of standard input comes");
  command->add_flag("--with-parent", flags->with_parent,
                    "End when the process that has started this one ends, also when it is killed");
  command->callback([=, &exit_code] {
    for (const std::string& label : *labels) {
      flags->node.labels[label.substr(0, label.find('='))] = label.substr(label.find('=') + 1);
    }
    for (const std::string& resource : *resources) {
      const size_t equals = resource.find('=');
      flags->node.resources[resource.substr(0, equals)] = std::strtod(resource.c_str() + equals + 1, nullptr);
    }
    exit_code = run_agent(*flags);
  });
}

}  // namespace paceline::cli
