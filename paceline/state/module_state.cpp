#include "paceline/state/module_state.h"

#include <sstream>

#include "paceline/core/error.h"

namespace paceline {
namespace {

std::map<std::string, torch::Tensor> live_tensors(const torch::nn::Module& module) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& parameter : module.named_parameters()) tensors.emplace(parameter.key(), parameter.value());
  for (const auto& buffer : module.named_buffers()) tensors.emplace(buffer.key(), buffer.value());
  return tensors;
}

}  // namespace

StateDict module_state(const torch::nn::Module& module) {
  StateDict state;
  for (auto& [name, tensor] : live_tensors(module)) {
    if (tensor.defined()) state.tensors.emplace(name, tensor.detach());
  }
  return state;
}

void load_module_state(torch::nn::Module& module, const StateDict& state) {
  auto live = live_tensors(module);
  std::ostringstream problems;
  for (const auto& [name, tensor] : live) {
    const auto saved = state.tensors.find(name);
    if (saved == state.tensors.end()) {
      if (tensor.defined()) problems << "; missing: " << name;
    } else if (!tensor.defined() || saved->second.sizes() != tensor.sizes()) {
      problems << "; " << name << ": wanted shape " << (tensor.defined() ? tensor.sizes() : torch::IntArrayRef())
               << ", got " << saved->second.sizes();
    } else if (!torch::canCast(saved->second.scalar_type(), tensor.scalar_type())) {
      problems << "; " << name << ": wanted type " << c10::toString(tensor.scalar_type()) << ", got "
               << c10::toString(saved->second.scalar_type());
    }
  }
  for (const auto& [name, tensor] : state.tensors) {
    if (live.find(name) == live.end()) problems << "; left over: " << name;
  }
  if (const std::string text = problems.str(); !text.empty()) {
    throw ConfigError("the saved state does not fit the module" + text +
                      ". Build the module as it was saved, or load it with code of your own");
  }
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : live) {
    if (tensor.defined()) tensor.copy_(state.tensors.at(name));
  }
}

}  // namespace paceline
