// How workers begin: as forks of the guardian, which is the program as it stood at init(), or by executing the program
// again.
//
// A fork begins with the libraries loaded, a tenth of a second sooner for each worker, but must not differ from the
// program executed again in what it computes: where it would, workers are executed, and a note says why. Not for users.
#pragma once

#include <string>

#include "paceline/rpc/messages.h"

namespace paceline::train {

/// The environment variable: "fork", which is the default, or "exec".
inline constexpr const char* kStartVariable = "PACELINE_START";

struct StartMethod {
  bool forks = false;
  std::string note;            // why it does not, for the run's log; "" when nobody expects it to
  rpc::StringMap environment;  // that of the guardian's libraries
};

/// For init(), right before it forks the guardian. UsageError when kStartVariable says neither.
StartMethod start_method_at_init();

/// For workers that get `environment`: one that says other things to libraries while they load takes an exec.
StartMethod for_environment(StartMethod method, const rpc::StringMap& environment);

/// In a forked worker: torch's default generator gets a seed of its own, unless the program has given it one before
/// init(), which then is every worker's.
void reseed();

}  // namespace paceline::train
