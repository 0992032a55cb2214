#include "paceline/train/prepare_model.h"

#include "paceline/core/error.h"
#include "paceline/train/worker/session_internal.h"

namespace paceline::train {

void prepare_module(const std::shared_ptr<torch::nn::Module>& module, const PrepareModelOptions& options) {
  options.validate();
  Session& session = Session::current("prepare_model()");
  if (options.move_to_device) module->to(session.options().device);
  session.watch(*module);
  if (options.parallel_strategy == "none") return session.adopt_local(module);
  session.collective([&] {
    session.adopt(*module,
                  parallel::DataParallel::attach(module, session.options().group, options.ddp, session.ledger()));
  });
}

std::shared_ptr<parallel::DataParallel> data_parallel_of(const torch::nn::Module& module, const char* function) {
  auto found = Session::current(function).data_parallel(module);
  if (!found) {
    throw UsageError(std::string(function) +
                     " was given a model that prepare_model() has not made data parallel in this train loop; call "
                     "prepare_model() on it first, with parallel_strategy \"ddp\"");
  }
  return found;
}

}  // namespace paceline::train
