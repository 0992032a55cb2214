#include "paceline/train/prepare_model.h"

#include <utility>

#include "paceline/core/error.h"
#include "paceline/train/worker/session_internal.h"

namespace paceline::train {

void prepare_module(const std::shared_ptr<torch::nn::Module>& module, const PrepareModelOptions& options) {
  options.validate();
  Session& session = Session::current("prepare_model()");
  session.forget_gone_models();  // so that their memory is there for this one
  if (options.move_to_device) module->to(session.options().device);
  session.watch(*module);
  const parallel::Strategy& strategy = parallel::find_strategy(options.parallel_strategy);
  session.collective([&] {
    auto model = strategy.attach(module, session.options().group, options, session.ledger());
    model->check_ranks_every(session.options().debug_config.check_ranks_every);
    session.adopt(std::move(model));
  });
}

void prepare_script_module(const torch::jit::Module& module, const PrepareModelOptions& options) {
  const auto stands_for_it = script_module(module);
  prepare_module(stands_for_it, options);
  Session::current("prepare_model()").keep(stands_for_it);
}

std::shared_ptr<parallel::ParallelModel> parallel_model_of(const torch::nn::Module& module, const char* function) {
  auto found = Session::current(function).parallel_model(module);
  if (!found) {
    throw UsageError(std::string(function) +
                     " was given a model that prepare_model() has not seen in this train loop; call prepare_model() on "
                     "it first");
  }
  return found;
}

}  // namespace paceline::train
