// The flags of `paceline run`: its own and torchrun's, with dashes or underscores, "=" or a blank, before the program.
// Pure.
//
// torchrun's flags mean what they mean there as far as one machine goes; what else happens to each stands in the table
// that run_flag_table() gives, from which --help is printed and with which docs/launching.md is compared. As there, the
// variable PET_NPROC_PER_NODE stands for --nproc-per-node and so on, and a beginning that only one flag has will do.
#pragma once

#include <arrow/result.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/launch/program.h"

namespace paceline::cli {

/// What the flags are read against.
struct RunFacts {
  int64_t cores = 1;
  int64_t gpus = 0;
  launch::Variables variables;
};

/// Which ranks' output the terminal shows; all of it is in the logs.
struct ShownOutput {
  std::set<int64_t> ranks;            // empty: all
  std::map<int64_t, int> redirected;  // by local rank: 1 standard output, 2 standard error, 3 both; -1: every rank
  std::map<int64_t, int> shown_too;   // the same, shown although redirected (--tee)

  bool shows(int64_t rank, const std::string& stream) const;
};

struct RunFlags {
  bool help = false;
  bool quiet = false;
  std::optional<int64_t> num_workers;
  std::optional<int64_t> max_restarts;
  std::optional<std::string> name;
  std::optional<std::string> storage_path;
  std::optional<int64_t> debug_rank;
  double shutdown_timeout_s = 30;
  std::string role = "default";
  std::string run_id = "none";
  std::string master_address = "127.0.0.1";
  int64_t master_port = 0;  // 0: any that is free
  bool virtual_local_rank = false;
  std::vector<int> signals;  // that stop the run and are passed on to the programs
  ShownOutput shown;
  launch::ProgramChoice program;
  std::vector<std::string> notes;         // on flags that change nothing here
  std::vector<std::string> driver_notes;  // on those that change nothing where the program calls fit()
};

/// Invalid with a sentence for the user: an unknown flag (with the nearest known one), a value that is not allowed, a
/// flag that makes no sense on one machine, no program.
arrow::Result<RunFlags> parse_run_flags(const std::vector<std::string>& arguments, const RunFacts& facts);

/// One row of the table of flags.
struct RunFlagInfo {
  std::string names;  // "-n,--num-workers"
  std::string value;  // what stands for its value in the help, "" for a flag without one
  bool torchruns = true;
  std::string what;

  /// "-n, --num-workers N"
  std::string usage() const;
};
std::vector<RunFlagInfo> run_flag_table();

}  // namespace paceline::cli
