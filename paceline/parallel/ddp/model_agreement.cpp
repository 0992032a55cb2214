#include "paceline/parallel/ddp/model_agreement.h"

#include <map>
#include <sstream>
#include <unordered_set>

namespace paceline::parallel {
namespace {

std::vector<NamedTensor> without_repeats(const torch::OrderedDict<std::string, torch::Tensor>& named) {
  std::vector<NamedTensor> tensors;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& item : named) {
    if (!item.value().defined() || !seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    tensors.push_back({item.key(), item.value()});
  }
  return tensors;
}

Json describe(const char* kind, const NamedTensor& item) {
  std::ostringstream form;
  form << c10::toString(item.tensor.scalar_type()) << ' ' << item.tensor.sizes();
  if (item.tensor.layout() != torch::kStrided) form << ' ' << item.tensor.layout();
  if (item.tensor.requires_grad()) form << " trained";
  return {{"what", std::string(kind) + " \"" + item.name + "\""}, {"form", form.str()}};
}

std::optional<std::string> compare(const Json& wanted, const Json& got, size_t rank) {
  std::map<std::string, std::string> forms;
  for (const auto& item : got) forms[item.at("what")] = item.at("form");
  const std::string on_rank = " on rank " + std::to_string(rank);
  for (const auto& item : wanted) {
    const std::string what = item.at("what");
    const auto found = forms.find(what);
    if (found == forms.end()) return what + " is missing" + on_rank + "; rank 0 has it";
    if (const std::string form = item.at("form"); found->second != form) {
      return what + on_rank + ": wanted=" + form + " (as rank 0) got=" + found->second;
    }
    forms.erase(found);
  }
  if (!forms.empty()) return forms.begin()->first + on_rank + " does not exist on rank 0";
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == got[i]) continue;
    return "the order of registration" + on_rank + " at position " + std::to_string(i) +
           ": wanted=" + wanted[i].at("what").get<std::string>() + " got=" + got[i].at("what").get<std::string>();
  }
  return std::nullopt;
}

}  // namespace

std::vector<NamedTensor> parameters_of(const torch::nn::Module& module) {
  return without_repeats(module.named_parameters());
}

std::vector<NamedTensor> buffers_of(const torch::nn::Module& module) {
  return without_repeats(module.named_buffers());
}

std::vector<torch::Tensor> tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<torch::Tensor> tensors;
  for (const auto& item : named) tensors.push_back(item.tensor);
  return tensors;
}

Json describe_model(const torch::nn::Module& module) {
  Json model = Json::array();
  for (const auto& parameter : parameters_of(module)) model.push_back(describe("parameter", parameter));
  for (const auto& buffer : buffers_of(module)) model.push_back(describe("buffer", buffer));
  return model;
}

std::optional<std::string> find_difference(const std::vector<Json>& models_by_rank) {
  for (size_t rank = 1; rank < models_by_rank.size(); ++rank) {
    if (auto difference = compare(models_by_rank.front(), models_by_rank[rank], rank)) return difference;
  }
  return std::nullopt;
}

torch::Tensor checksums(const std::vector<torch::Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> sums;
  for (const torch::Tensor& tensor : tensors) {
    const size_t size = tensor.element_size();
    const auto integer = size == 1 ? torch::kUInt8 : size == 2 ? torch::kInt16 : torch::kInt32;
    const torch::Tensor sum = tensor.detach().contiguous().view({-1}).view(integer).sum(torch::kInt64);
    sums.push_back(sums.empty() ? sum : sum.to(sums.front().device()));
  }
  return sums.empty() ? torch::empty({0}, torch::kInt64) : torch::stack(sums).cpu();
}

std::optional<WeightDifference> find_difference(const std::vector<torch::Tensor>& checksums_by_rank) {
  const torch::Tensor differs = torch::stack(checksums_by_rank).ne(checksums_by_rank.front());  // (ranks, tensors)
  const torch::Tensor places = differs.any(0).nonzero();
  if (places.size(0) == 0) return std::nullopt;
  WeightDifference difference{.place = places[0].item<int64_t>(), .ranks = {}};
  for (int64_t rank = 0; rank < differs.size(0); ++rank) {
    if (differs[rank][difference.place].item<bool>()) difference.ranks.push_back(rank);
  }
  return difference;
}

}  // namespace paceline::parallel
