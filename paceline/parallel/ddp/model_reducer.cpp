#include "paceline/parallel/ddp/model_reducer.h"

#include <algorithm>
#include <string>
#include <unordered_set>

namespace paceline::parallel {
namespace {

comm::Compression to_compression(const std::string& name) {
  if (name == "bf16") return comm::Compression::bf16;
  return name == "fp16" ? comm::Compression::fp16 : comm::Compression::none;
}

}  // namespace

std::vector<bool> expect_sparse(const torch::nn::Module& module, const std::vector<NamedTensor>& parameters) {
  std::unordered_set<const c10::TensorImpl*> sparse;
  for (const auto& child : module.modules()) {
    if (const auto* embedding = child->as<torch::nn::EmbeddingImpl>(); embedding && embedding->options.sparse()) {
      sparse.insert(embedding->weight.unsafeGetTensorImpl());
    }
    if (const auto* bag = child->as<torch::nn::EmbeddingBagImpl>(); bag && bag->options.sparse()) {
      sparse.insert(bag->weight.unsafeGetTensorImpl());
    }
  }
  std::vector<bool> expected;
  for (const auto& parameter : parameters) expected.push_back(sparse.count(parameter.tensor.unsafeGetTensorImpl()) > 0);
  return expected;
}

std::unique_ptr<comm::GradientReducer> make_reducer(const std::vector<NamedTensor>& parameters,
                                                    const std::vector<bool>& sparse,
                                                    const std::shared_ptr<comm::Group>& group,
                                                    const DdpOptions& options) {
  comm::ReducerOptions settings;
  const bool default_size = options.bucket_cap_mb == DdpOptions{}.bucket_cap_mb;
  constexpr double kOneBucket = 1e9;  // MiB; whatever is more has no meaning, and no integer
  settings.bucket_bytes = static_cast<int64_t>(std::min(options.bucket_cap_mb, kOneBucket) * (1 << 20));
  if (!default_size) settings.first_bucket_bytes = settings.bucket_bytes;
  settings.static_graph = options.static_graph;
  settings.gradient_as_bucket_view = options.gradient_as_bucket_view;
  settings.compression = to_compression(options.compression);
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter.name);
  return comm::GradientReducer::create(group, tensors_of(parameters), names, sparse, settings);
}

}  // namespace paceline::parallel
