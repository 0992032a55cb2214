#include "paceline/parallel/parallel_model.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace paceline::parallel {
namespace {

// Ranks can be threads of one process: the models of all of them are here.
struct Trained {
  std::mutex mutex;
  std::unordered_map<const c10::TensorImpl*, ParallelModel*> models;
};

Trained& trained() {
  static auto* const instance = new Trained;  // models may outlive every other static
  return *instance;
}

}  // namespace

ParallelModel::ParallelModel(const std::shared_ptr<torch::nn::Module>& module, std::shared_ptr<comm::Group> group)
    : module_(module), group_(std::move(group)) {
  for (const auto& part : module->modules()) parts_.push_back(part);
  const std::lock_guard lock(trained().mutex);
  for (const auto& parameter : module->parameters()) trained().models[parameter.unsafeGetTensorImpl()] = this;
}

ParallelModel::~ParallelModel() {
  const std::lock_guard lock(trained().mutex);
  std::erase_if(trained().models, [this](const auto& entry) { return entry.second == this; });
}

bool ParallelModel::is_held() const {
  return std::ranges::any_of(parts_, [](const auto& part) { return !part.expired(); });
}

ParallelModel* ParallelModel::of(const torch::Tensor& parameter) {
  const std::lock_guard lock(trained().mutex);
  const auto found = trained().models.find(parameter.unsafeGetTensorImpl());
  return found == trained().models.end() ? nullptr : found->second;
}

NoSync::NoSync(std::shared_ptr<ParallelModel> model) : model_(std::move(model)) {
  model_->enter_no_sync();
}

NoSync::~NoSync() {
  if (model_ != nullptr) model_->leave_no_sync();
}

}  // namespace paceline::parallel
