// One flag of `paceline run`: how it is written, its help, what it does. Not for other modules.
#pragma once

#include <arrow/status.h>

#include <optional>
#include <string>
#include <vector>

#include "paceline/cli/commands/run_flags.h"

namespace paceline::cli {

/// Stands for every rank in ShownOutput.
inline constexpr int64_t kEveryRank = -1;

/// What the flags have said so far.
struct Reading {
  const RunFacts& facts;
  RunFlags flags;
  std::optional<int64_t> nproc;
  std::optional<std::string> endpoint;
  bool standalone = false;
  bool has_master_address = false;
  std::optional<double> keep_alive_interval_s;
  std::optional<double> keep_alive_attempts;
  bool counts_this_machine = false;  // a number of workers is not a number: cpu, gpu, auto
};

using Apply = arrow::Status (*)(Reading& reading, const std::string& value);

struct Flag {
  const char* name;      // with dashes
  char letter;           // 0 for none
  const char* value;     // what stands for its value in the help; nullptr for a flag without one
  const char* choices;   // "a|b": the only values; nullptr for any
  const char* variable;  // "PET_…", nullptr for none
  const char* what;
  Apply apply;  // nullptr: it changes nothing, and a note says why: what `what` says after "No effect: "
  // Why it changes nothing where the program calls fit(), which a note says; nullptr: what it says holds there too.
  const char* without_effect_on_drivers = nullptr;
  // With --engine ray it is for the side that submits the job, not for the job.
  bool stays_here = false;
  // It says where a node is on which this command is run: those of --hosts and of a Ray cluster find that out.
  bool places_own_node = false;
};

/// Those that torchrun does not have.
const std::vector<Flag>& own_flags();
const std::vector<Flag>& torchrun_flags();

}  // namespace paceline::cli
