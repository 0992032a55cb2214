#include "paceline/loader/row_random.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

namespace paceline::loader {
namespace {

// Of the keys of LibTorch's dispatcher that nothing in LibTorch uses the one that is meant for modes from outside: it
// is in a thread's set of keys while a RowRandom lives, above autograd's and the devices'.
constexpr auto kMode = c10::DispatchKey::DeferredInit;

thread_local RowRandom* current = nullptr;

bool takes_generator(const c10::Argument& argument) {
  const auto optional = argument.type()->cast<c10::OptionalType>();
  return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

// Where the operator draws: on the device of its tensors, or on the one that it is to make a tensor on.
torch::Device device_of(const torch::jit::Stack& stack, size_t arguments) {
  for (const c10::IValue& argument : torch::jit::last(stack, arguments)) {
    if (argument.isTensor() && argument.toTensor().defined() && !argument.toTensor().is_cpu()) {
      return argument.toTensor().device();
    }
    if (argument.isDevice()) return argument.toDevice();
  }
  return torch::kCPU;
}

void draw(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const torch::Device device = device_of(*stack, arguments.size());
  if (current != nullptr && (device.is_cpu() || device.is_cuda())) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      c10::IValue& argument = torch::jit::peek(*stack, i, arguments.size());
      if (argument.isNone() && takes_generator(arguments[i])) argument = current->generator(device);
    }
  }
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kMode), stack);
}

// Dropout on CUDA is one operator that draws and takes no generator. Here it is made of those that do; their gradients
// are autograd's, which comes behind this key.
std::tuple<torch::Tensor, torch::Tensor> native_dropout(const torch::Tensor& input, double p,
                                                        std::optional<bool> train) {
  if (current == nullptr || !input.is_cuda() || !train.value_or(true)) {
    const c10::impl::ExcludeDispatchKeyGuard without(kMode);
    return at::native_dropout(input, p, train);
  }
  const double kept = 1.0 - p;
  const torch::Tensor mask =
      at::empty_like(input, input.options().dtype(torch::kBool)).bernoulli_(kept, current->generator(input.device()));
  return {input * mask * (kept == 0.0 ? 0.0 : 1.0 / kept), mask};
}

// Operators that do not draw skip the key, at no cost; those that draw without taking a generator call others that do.
TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, DeferredInit, library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !name.getNamespace() || *name.getNamespace() != "aten") continue;
    if (!std::ranges::any_of(op->schema().arguments(), takes_generator)) continue;
    library.impl(toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&draw>());
  }
  library.impl("native_dropout", &native_dropout);
}

}  // namespace

uint64_t RowSeed::of(size_t row) const {
  uint64_t mixed = 0;
  for (const uint64_t part : {static_cast<uint64_t>(seed), static_cast<uint64_t>(epoch), uint64_t{row}}) {
    mixed += part + 0x9e3779b97f4a7c15;  // splitmix64
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    mixed ^= mixed >> 31;
  }
  return mixed;
}

RowRandom::RowRandom(const RowSeed& seed, size_t row) : seed_(seed.of(row)), outer_(current), intercepts_(kMode) {
  current = this;
}

RowRandom::~RowRandom() {
  current = outer_;
}

torch::Generator RowRandom::generator(torch::Device device) {
  const bool on_cpu = device.is_cpu();
  if (!on_cpu) at::globalContext().lazyInitDevice(device.type());
  const auto* const hooks = on_cpu ? nullptr : &at::globalContext().getAcceleratorHooksInterface(device.type());
  if (!on_cpu && !device.has_index()) device.set_index(hooks->getCurrentDevice());
  const auto made = std::ranges::find(generators_, device, [](const auto& generator) { return generator.device(); });
  if (made != generators_.end()) return *made;
  torch::Generator generator = on_cpu ? at::detail::createCPUGenerator(seed_) : hooks->getNewGenerator(device.index());
  if (!on_cpu) generator.set_current_seed(seed_);
  return generators_.emplace_back(generator);
}

}  // namespace paceline::loader
