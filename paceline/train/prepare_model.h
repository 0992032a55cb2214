// prepare_model: prepares a model for its worker: moves it to the device, gives all ranks the same start, and averages
// gradients.
#pragma once

#include <torch/torch.h>

#include <concepts>
#include <memory>
#include <string>

#include "paceline/parallel/parallel_model.h"
#include "paceline/parallel/strategy.h"
#include "paceline/state/script_module.h"

namespace paceline {

/// What holds a module: a holder (of TORCH_MODULE) or a std::shared_ptr of one.
template <class Holder>
concept ModuleHolder = requires(const Holder& model) {
  { model.ptr() } -> std::convertible_to<std::shared_ptr<torch::nn::Module>>;
} || std::convertible_to<Holder, std::shared_ptr<torch::nn::Module>>;

template <class Holder>
concept ScriptModule = std::derived_from<Holder, torch::jit::Module>;

namespace train {

/// What a module holder or a shared pointer holds; of a TorchScript module its parameters and buffers.
template <class Holder>
std::shared_ptr<torch::nn::Module> module_of(const Holder& model) {
  if constexpr (ScriptModule<Holder>) {
    return script_module(model);
  } else if constexpr (requires { model.ptr(); }) {
    return model.ptr();
  } else {
    static_assert(ModuleHolder<Holder>,
                  "a model is a module holder (torch::nn::Linear, what TORCH_MODULE makes), a std::shared_ptr to a "
                  "torch::nn::Module, or a torch::jit::Module");
    return model;
  }
}

/// prepare_model() without its types.
void prepare_module(const std::shared_ptr<torch::nn::Module>& module, const PrepareModelOptions& options);
void prepare_script_module(const torch::jit::Module& module, const PrepareModelOptions& options);
/// UsageError when prepare_model() has not seen the module.
std::shared_ptr<parallel::ParallelModel> parallel_model_of(const torch::nn::Module& module, const char* function);

}  // namespace train

/// Moves `model` to the worker's device, checks that all ranks hold the same model, and gives every rank rank 0's
/// parameters and buffers. From then on it averages gradients over the ranks during backward. Collective. Returns the
/// same model (same holder, same module): nothing wraps its forward(), and Paceline does not keep it alive. Once its
/// holders are gone, the next step, report or prepare_model() releases its memory and connections. Create optimizers
/// afterwards. A torch::jit::Module (TorchScript) is prepared in the same way, and kept until the train loop ends.
/// Throws CollectiveError naming rank and parameter if ranks hold different models, ConfigError for options that are
/// not allowed, and UsageError outside a train loop.
///
/// With parallel_strategy "none" the model only moves to the device: each rank trains its own. Checkpoint::save() then
/// keeps the model of every rank, with the optimizers of its parameters.
///
///     auto model = paceline::prepare_model(ResNet18(/*num_classes=*/10));
///     auto sparse = paceline::prepare_model(Experts(), {.ddp = {.find_unused_parameters = true}});
template <class Holder>
Holder prepare_model(Holder model, const PrepareModelOptions& options = {}) {  // a field misspelt? name the type
  static_assert(!std::derived_from<Holder, torch::nn::Module>,
                "prepare_model() was given a module by value, and would prepare a copy; give it a std::shared_ptr "
                "(std::make_shared<Net>(…)), or the holder that TORCH_MODULE(Net) makes of a class NetImpl");
  static_assert(std::derived_from<Holder, torch::nn::Module> || ModuleHolder<Holder> || ScriptModule<Holder>,
                "prepare_model() takes a module: a std::shared_ptr of one, the holder that TORCH_MODULE makes, or a "
                "torch::jit::Module");
  if constexpr (ScriptModule<Holder>) {
    train::prepare_script_module(model, options);
  } else if constexpr (ModuleHolder<Holder>) {
    train::prepare_module(train::module_of(model), options);
  }
  return model;
}

/// While the returned scope lives, backward accumulates gradients on this rank without averaging; the first backward
/// after it averages what has accumulated. Call backward inside the scope. Throws UsageError for a model that
/// prepare_model() has not seen.
///
///     { auto scope = paceline::no_sync(model); loss_1.backward(); }
///     loss_2.backward();                                       // averages both
template <class Holder>
parallel::NoSync no_sync(const Holder& model) {
  return parallel::NoSync(train::parallel_model_of(*train::module_of(model), "no_sync()"));
}

}  // namespace paceline
