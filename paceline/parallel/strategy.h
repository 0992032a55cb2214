// Parallel strategies: how prepare_model() spreads a model over the ranks, one row each.
//
// To add one, implement ParallelModel in a folder of parallel/, write its row in strategy.cpp and its options into
// PrepareModelOptions, and let it pass the suite testing/strategy_conformance.h. Pure data.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/config/field.h"
#include "paceline/parallel/ddp/data_parallel.h"
#include "paceline/parallel/parallel_model.h"
#include "paceline/state/step.h"

namespace paceline {

namespace parallel {
/// The names of all strategies.
std::vector<std::string> strategy_names();
/// "ddp: …; none: …": what each does.
std::string strategy_help();
}  // namespace parallel

// What prepare_model() makes of a model.
#define PACELINE_PREPARE_MODEL_OPTIONS_FIELDS(FIELD)                                                       \
  FIELD(bool, move_to_device, true, ::paceline::any_value(), "Moves the model to get_device()")            \
  FIELD(std::string, parallel_strategy, "ddp", ::paceline::one_of(::paceline::parallel::strategy_names()), \
        ::paceline::parallel::strategy_help())                                                             \
  FIELD(::paceline::DdpOptions, ddp, {}, ::paceline::any_value(), "Options of data parallelism")
PACELINE_CONFIG(PrepareModelOptions, PACELINE_PREPARE_MODEL_OPTIONS_FIELDS);

namespace parallel {

struct Strategy {
  /// As PrepareModelOptions::parallel_strategy has it.
  std::string_view name;
  /// What it does, in a few words.
  std::string_view help;
  /// Makes the module train over the group; collective. `ledger` may be null. CollectiveError, also when ranks hold
  /// different models, and ConfigError for options.
  std::shared_ptr<ParallelModel> (*attach)(std::shared_ptr<torch::nn::Module> module,
                                           std::shared_ptr<comm::Group> group, const PrepareModelOptions& options,
                                           std::shared_ptr<StepLedger> ledger) = nullptr;
};

/// ConfigError listing the names when there is none of that name.
const Strategy& find_strategy(std::string_view name);

}  // namespace parallel
}  // namespace paceline
