#include "paceline/state/script_module.h"

#include <mutex>
#include <unordered_map>

namespace paceline {
namespace {

// Holds the TorchScript module, so that its address stays its own.
class View final : public torch::nn::Module {
 public:
  explicit View(const torch::jit::Module& module) : module_(module) {
    for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
      register_parameter(parameter.name, parameter.value, parameter.value.requires_grad());
    }
    for (const auto& buffer : module.named_buffers(/*recurse=*/false)) register_buffer(buffer.name, buffer.value);
    for (const auto& child : module.named_children()) {
      register_module(child.name, std::make_shared<View>(child.value));
    }
  }

 private:
  const torch::jit::Module module_;
};

struct Views {
  std::mutex mutex;
  std::unordered_map<const void*, std::weak_ptr<torch::nn::Module>> by_module;
};

}  // namespace

std::shared_ptr<torch::nn::Module> script_module(const torch::jit::Module& module) {
  static Views views;
  const std::lock_guard lock(views.mutex);
  auto& known = views.by_module[module._ivalue().get()];
  if (auto view = known.lock()) return view;
  auto view = std::make_shared<View>(module);
  known = view;
  std::erase_if(views.by_module, [](const auto& entry) { return entry.second.expired(); });
  return view;
}

}  // namespace paceline
