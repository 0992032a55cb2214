#include "paceline/parallel/join.h"

#include <utility>

#include "paceline/core/error.h"

namespace paceline::parallel {

JoinedRanks::JoinedRanks(std::shared_ptr<comm::Group> group, size_t models, const JoinOptions& options)
    : group_(std::move(group)), models_(models), options_(options) {}

void JoinedRanks::announce(const std::vector<size_t>& models) {
  if (!is_shadow_) meet(models);  // a shadow has heard of it already
}

// Gives the models of the backward that ends.
std::vector<size_t> JoinedRanks::meet(const std::vector<size_t>& models) {
  const int64_t world = group_->size();
  std::vector<int64_t> said(static_cast<size_t>(world) + models_, 0);
  if (!models.empty()) said[static_cast<size_t>(group_->rank())] = 1;
  for (const size_t model : models) said[static_cast<size_t>(world) + model] = 1;
  torch::Tensor all = torch::tensor(said);
  group_->all_reduce(all, comm::ReduceOp::max);
  const auto* const heard = all.const_data_ptr<int64_t>();
  std::vector<int64_t> live;
  for (int64_t rank = 0; rank < world; ++rank) {
    if (heard[rank] != 0) live.push_back(rank);
  }
  std::vector<size_t> these;
  for (size_t model = 0; model < models_; ++model) {
    if (heard[static_cast<size_t>(world) + model] != 0) these.push_back(model);
  }
  if (!live.empty()) live_ = std::move(live);
  return these;
}

double JoinedRanks::scale() const {
  if (options_.divide_by_initial_world_size || live_.empty()) return 1;
  return static_cast<double>(group_->size()) / static_cast<double>(live_.size());
}

void JoinedRanks::conclude() const {
  if (!options_.throw_on_early_termination || all_have_data()) return;
  std::string with_data;
  for (const int64_t rank : live_) with_data += (with_data.empty() ? "" : ", ") + std::to_string(rank);
  throw CollectiveError("the data of some ranks has ended, but not that of rank " + with_data + " of " +
                        std::to_string(group_->size()) +
                        " (JoinOptions.throw_on_early_termination): end the loop on every rank here, or give all ranks "
                        "as many batches");
}

Join::Join(std::vector<std::shared_ptr<ParallelModel>> models, std::shared_ptr<comm::Group> group,
           const JoinOptions& options)
    : models_(std::move(models)), ranks_(std::make_shared<JoinedRanks>(std::move(group), models_.size(), options)) {
  for (const auto& model : models_) model->check_joinable();
  for (size_t i = 0; i < models_.size(); ++i) models_[i]->set_join(ranks_, i);
}

Join::~Join() {
  for (const auto& model : models_) model->set_join(nullptr, 0);
}

void Join::finish() {
  for (auto these = ranks_->meet({}); !these.empty(); these = ranks_->meet({})) {
    ranks_->is_shadow_ = true;
    std::vector<torch::Tensor> parameters, zeros;
    for (const size_t model : these) models_[model]->begin_shadow(parameters, zeros);
    torch::autograd::backward(parameters, zeros);
    for (torch::Tensor& parameter : parameters) parameter.mutable_grad().reset();
  }
  ranks_->is_shadow_ = false;
  if (const auto from = source()) {
    for (const auto& model : models_) model->copy_from(*from);
  }
}

std::optional<int64_t> Join::source() const {
  if (ranks_->live_.empty() || ranks_->all_have_data()) return std::nullopt;
  return ranks_->first_with_data();
}

}  // namespace paceline::parallel
