// The flags of `paceline run`: its own and torchrun's, with dashes or underscores, "=" or a blank, before the program.
// Pure.
//
// torchrun's flags mean what they mean there; what is different stands in the table that run_flag_table() gives, from
// which --help is printed and with which docs/launching.md is compared. As there, the variable PET_NPROC_PER_NODE
// stands for --nproc-per-node and so on, and a beginning that only one flag has will do.
#pragma once

#include <arrow/result.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/core/config/scaling_config.h"
#include "paceline/launch/program.h"

namespace paceline::cli {

/// What the flags are read against.
struct RunFacts {
  int64_t cores = 1;
  int64_t gpus = 0;
  launch::Variables variables;
};

/// Which ranks' output the terminal shows; all of it is in the logs. Ranks count from 0 on each node.
struct ShownOutput {
  std::set<int64_t> ranks;            // empty: all
  std::map<int64_t, int> redirected;  // by local rank: 1 standard output, 2 standard error, 3 both; -1: every rank
  std::map<int64_t, int> shown_too;   // the same, shown although redirected (--tee)

  bool shows(int64_t rank, const std::string& stream) const;
};

/// What the flags say of several nodes: --nnodes, and where they meet.
struct NodeFlags {
  int64_t least = 1;
  int64_t most = 1;
  /// Of this node. Without an endpoint it is 0 where no flag says it.
  std::optional<int64_t> rank;
  /// Where the first node is: --rdzv-endpoint, else --master-addr and --master-port. Port 0: as the token file says.
  std::string host;
  int64_t port = 0;
  /// Whether no flag says where the first node is: it is looked for on this machine.
  bool has_default_host = false;
  /// Whether this node is that, where --rdzv-conf says it.
  std::optional<bool> is_host;
  /// So long nodes wait for each other, and, where the least are there, for those that may come besides.
  double join_timeout_s = 600;
  double last_call_s = 30;
  /// Without a sign of life for so long a node is lost; not set: FailureConfig's.
  std::optional<double> lease_s;
  /// Of this node, for the others; "": found out.
  std::string local_address;
  /// "": a file in the user's home.
  std::string token_file;

  bool are_several() const { return most > 1; }
};

/// What the flags say of a Ray cluster: --engine ray.
struct RayFlags {
  /// Of its dashboard; "": as Ray's variables say.
  std::string address;
  /// Folder that the cluster gets; "": none.
  std::string working_dir;
  /// File with Ray's runtime_env; "": none.
  std::string runtime_env;
  /// What each rank of a program needs that does not call fit().
  Resources resources_per_worker;
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
  std::optional<int64_t> master_port;  // 0: any that is free
  NodeFlags nodes;
  std::optional<std::string> engine;  // where the ranks' machines come from; not set: as the program says, or here
  RayFlags ray;
  /// What a job of the cluster says once more: all flags but those of RayFlags that are for this side alone.
  Words passed_on;
  /// Machines on which ssh starts agents, of one node each; this one only drives then.
  std::vector<std::string> hosts;
  bool ship = false;
  /// The program calls fit(), although it is none of which that can be told.
  bool driver = false;
  bool virtual_local_rank = false;
  std::vector<int> signals;  // that stop the run and are passed on to the programs
  ShownOutput shown;
  launch::ProgramChoice program;
  std::vector<std::string> notes;         // on flags that change nothing here
  std::vector<std::string> driver_notes;  // on those that change nothing where the program calls fit()
};

/// Invalid with a sentence for the user: an unknown flag (with the nearest known one), a value that is not allowed, a
/// flags that do not go together, no program.
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
