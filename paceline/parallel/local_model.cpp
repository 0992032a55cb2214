#include "paceline/parallel/local_model.h"

#include <utility>

#include "paceline/state/module_state.h"

namespace paceline::parallel {
namespace {

class LocalModel final : public ParallelModel {
 public:
  using ParallelModel::ParallelModel;

  void void_step() override {
    for (const auto& part : parts_) {
      const auto held = part.lock();
      if (held == nullptr) continue;
      for (auto& parameter : held->parameters(/*recurse=*/false)) parameter.mutable_grad().reset();
    }
  }
  torch::Tensor norm_over_ranks(const torch::Tensor& norm, double) override { return norm; }
  void check_ranks_every(int64_t) override {}
  void rebuild(std::shared_ptr<comm::Group> group) override {
    group_ = std::move(group);
    void_step();
  }
  Placement placement() const override { return Placement::per_rank; }
  StateDict state_dict() const override { return module_state(*module()); }
  void load_state_dict(const StateDict& state) override { load_module_state(*module(), state); }

 private:
  void enter_no_sync() override {}
  void leave_no_sync() override {}
};

}  // namespace

std::shared_ptr<ParallelModel> keep_local(std::shared_ptr<torch::nn::Module> module,
                                          std::shared_ptr<comm::Group> group) {
  return std::make_shared<LocalModel>(std::move(module), std::move(group));
}

}  // namespace paceline::parallel
