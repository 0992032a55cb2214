#include "paceline/train/prepare_model.h"

#include "paceline/core/error.h"
#include "paceline/train/session_internal.h"

namespace paceline::train {

void prepare_module(const std::shared_ptr<torch::nn::Module>& module, const PrepareModelOptions& options) {
  options.validate();
  Session& session = Session::current("prepare_model()");
  session.throw_if_stopped();
  if (options.move_to_device) module->to(session.options().device);
  if (options.parallel_strategy == "none") return;
  session.adopt(*module,
                parallel::DataParallel::attach(module, session.options().group, options.ddp, session.ledger()));
}

std::shared_ptr<parallel::DataParallel> data_parallel_of(const torch::nn::Module& module, const char* function) {
  auto found = Session::current(function).data_parallel(module);
  if (!found) {
    throw UsageError(std::string(function) + " was given a model that prepare_model() has not made data parallel");
  }
  return found;
}

}  // namespace paceline::train
