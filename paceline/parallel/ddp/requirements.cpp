#include "paceline/parallel/ddp/requirements.h"

#include "paceline/core/error.h"

namespace paceline::parallel {

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text;
}

void check_one_device(const std::vector<NamedTensor>& parameters) {
  for (const auto& parameter : parameters) {
    const auto& first = parameters.front();
    if (parameter.tensor.device() == first.tensor.device()) continue;
    throw CollectiveError("data parallelism needs all trained parameters on one device: \"" + first.name + "\" is on " +
                          first.tensor.device().str() + ", \"" + parameter.name + "\" on " +
                          parameter.tensor.device().str() + "; move the model to one device");
  }
}

void check_batch_norms(const torch::nn::Module& module) {
  std::vector<std::string> plain;
  for (const auto& item : module.named_modules()) {
    const auto* child = item.value().get();
    if (child->as<torch::nn::BatchNorm1dImpl>() || child->as<torch::nn::BatchNorm2dImpl>() ||
        child->as<torch::nn::BatchNorm3dImpl>()) {
      plain.push_back(item.key());
    }
  }
  if (plain.empty()) return;
  throw ConfigError("DdpOptions.sync_batch_norm is true, but the model has plain batch normalisation at " +
                    quoted(plain) +
                    ": LibTorch modules cannot be changed from outside; use paceline::nn::SyncBatchNorm1d, 2d or 3d "
                    "in the model");
}

void check_agreement(const torch::nn::Module& module, comm::Group& group) {
  std::vector<Json> models;
  for (const auto& text : comm::all_gather_text(group, encode_json(describe_model(module)))) {
    models.push_back(value_or_throw(decode_json(text)));
  }
  if (const auto difference = find_difference(models)) {
    throw CollectiveError("the ranks hold different models: " + *difference + "; build the model alike on every rank");
  }
}

}  // namespace paceline::parallel
