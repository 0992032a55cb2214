#include "paceline/parallel/strategy.h"

#include <algorithm>
#include <array>
#include <utility>

#include "paceline/parallel/local_model.h"

namespace paceline::parallel {
namespace {

using Module = std::shared_ptr<torch::nn::Module>;
using Group = std::shared_ptr<comm::Group>;
using Ledger = std::shared_ptr<StepLedger>;

constexpr std::array<Strategy, 2> kRows = {{
    {.name = "ddp",
     .help = "averages gradients during backward",
     .attach = [](Module module, Group group, const PrepareModelOptions& options,
                  Ledger ledger) -> std::shared_ptr<ParallelModel> {
       return DataParallel::attach(std::move(module), std::move(group), options.ddp, std::move(ledger));
     }},
    {.name = "none",
     .help = "each rank trains a model of its own",
     // NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is every row's
     .attach = [](Module module, Group group, const PrepareModelOptions&, Ledger) -> std::shared_ptr<ParallelModel> {
       return keep_local(std::move(module), std::move(group));
     }},
}};

}  // namespace

const Strategy& find_strategy(std::string_view name) {
  const auto row = std::ranges::find(kRows, name, &Strategy::name);
  if (row == kRows.end()) {
    check_field("PrepareModelOptions", "parallel_strategy", std::string(name), one_of(strategy_names()));
  }
  return *row;
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const Strategy& strategy : kRows) names.emplace_back(strategy.name);
  return names;
}

std::string strategy_help() {
  std::string text;
  for (const Strategy& strategy : kRows) {
    text += (text.empty() ? "" : "; ") + std::string(strategy.name) + ": " + std::string(strategy.help);
  }
  return text;
}

}  // namespace paceline::parallel
