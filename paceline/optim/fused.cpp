#include "paceline/optim/fused.h"

#include <map>
#include <string>
#include <tuple>

#include "paceline/core/error.h"

namespace paceline::optim {
namespace {

using torch::Tensor;
using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;

/// The kernels take lists of one device and type; SGD's also tells first steps from later ones.
using ListKey = std::tuple<c10::DeviceType, c10::DeviceIndex, at::ScalarType, bool>;

ListKey key_of(const Tensor& parameter, bool first_step = false) {
  return {parameter.device().type(), parameter.device().index(), parameter.scalar_type(), first_step};
}

/// What a kernel gets in a parameter's place. It walks through memory from the first element on: beside a parameter
/// that is a slice of a larger tensor it would write into the rest of that.
Tensor dense(const Tensor& parameter) {
  return parameter.is_non_overlapping_and_dense() ? parameter : at::empty_like(parameter).copy_(parameter);
}

/// Brings home what kernels have made of copies.
void copy_back(const std::vector<Tensor>& parameters, const std::vector<Tensor>& updated) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].is_same(updated[i])) parameters[i].copy_(updated[i]);
  }
}

/// All tensors that a kernel gets with a parameter need its strides.
Tensor laid_out_as(const Tensor& parameter, const Tensor& tensor) {
  if (tensor.strides() == parameter.strides() && tensor.scalar_type() == parameter.scalar_type()) return tensor;
  return at::empty_like(parameter).copy_(tensor);
}

Tensor gradient_of(const Tensor& parameter, const char* optimizer) {
  const Tensor& gradient = parameter.grad();
  if (!at::isFloatingType(parameter.scalar_type())) {
    throw UsageError(std::string("paceline::optim::") + optimizer + " takes real parameters; one of shape " +
                     c10::str(parameter.sizes()) + " is " + c10::toString(parameter.scalar_type()) +
                     ". Hold it as torch::view_as_real(…), or use torch::optim::" + optimizer + " for it");
  }
  if (gradient.layout() != at::kStrided) {
    throw UsageError(std::string("paceline::optim::") + optimizer + " takes dense gradients; a parameter of shape " +
                     c10::str(parameter.sizes()) + " has a sparse one. Make its embedding dense (sparse(false)), or " +
                     "use torch::optim::SGD or torch::optim::Adagrad for it");
  }
  return gradient;
}

using States = ska::flat_hash_map<void*, std::unique_ptr<torch::optim::OptimizerParamState>>;

/// Null before the parameter's first step.
template <class State>
const State* find_state(const States& states, const Tensor& parameter) {
  const auto found = states.find(parameter.unsafeGetTensorImpl());
  return found == states.end() ? nullptr : static_cast<const State*>(found->second.get());
}

template <class State>
State& make_state(States& states, const Tensor& parameter) {
  auto& state = states[parameter.unsafeGetTensorImpl()];
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

Tensor call(const Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const at::AutoGradMode enable_grad(true);
  return closure();
}

struct AdamLists {
  std::vector<Tensor> homes, parameters, gradients, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps;
  std::vector<int64_t> numbers;  // of the steps
};

/// The kernels read step numbers from tensors. Parameters mostly share theirs: one tensor then serves all.
class StepTensors {
 public:
  const Tensor& at(int64_t step, torch::Device device) {
    Tensor& tensor = tensors_[{step, device.type(), device.index()}];
    if (!tensor.defined()) {
      tensor = at::full({}, static_cast<double>(step), at::TensorOptions(at::kFloat).device(device));
    }
    return tensor;
  }

 private:
  std::map<std::tuple<int64_t, c10::DeviceType, c10::DeviceIndex>, Tensor> tensors_;
};

template <class Options, class State>
std::map<ListKey, AdamLists> adam_lists(const Optimizer& optimizer, const OptimizerParamGroup& group, const char* name,
                                        StepTensors& step_tensors) {
  const auto& options = static_cast<const Options&>(group.options());
  std::map<ListKey, AdamLists> lists;
  for (const Tensor& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    AdamLists& list = lists[key_of(parameter)];
    const Tensor form = dense(parameter);
    list.gradients.push_back(laid_out_as(form, gradient_of(parameter, name)));
    const auto* const state = find_state<State>(optimizer.state(), parameter);
    const auto moment = [&](const Tensor& (State::*value)() const) {
      const Tensor now = state == nullptr ? Tensor() : (state->*value)();
      return now.defined() ? laid_out_as(form, now) : at::zeros_like(form, at::MemoryFormat::Preserve);
    };
    list.homes.push_back(parameter);
    list.parameters.push_back(form);
    list.exp_avgs.push_back(moment(&State::exp_avg));
    list.exp_avg_sqs.push_back(moment(&State::exp_avg_sq));
    if (options.amsgrad()) list.max_exp_avg_sqs.push_back(moment(&State::max_exp_avg_sq));
    list.numbers.push_back(state == nullptr ? 1 : state->step() + 1);
    list.steps.push_back(step_tensors.at(list.numbers.back(), parameter.device()));
  }
  return lists;
}

/// One step of Adam or AdamW: `kernel` is given the lists and options of each group. What is refused is refused before
/// the first parameter moves.
template <class Options, class State, class Kernel>
void adam_step(Optimizer& optimizer, const char* name, Kernel kernel) {
  StepTensors step_tensors;
  std::vector<std::map<ListKey, AdamLists>> groups;
  for (const OptimizerParamGroup& group : optimizer.param_groups()) {
    groups.push_back(adam_lists<Options, State>(optimizer, group, name, step_tensors));
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto& options = static_cast<const Options&>(optimizer.param_groups()[i].options());
    for (auto& [key, list] : groups[i]) {
      kernel(list, options);
      copy_back(list.homes, list.parameters);
      for (size_t p = 0; p < list.homes.size(); ++p) {
        auto& state = make_state<State>(optimizer.state(), list.homes[p]);
        state.step(list.numbers[p]);
        state.exp_avg(list.exp_avgs[p]);
        state.exp_avg_sq(list.exp_avg_sqs[p]);
        if (options.amsgrad()) state.max_exp_avg_sq(list.max_exp_avg_sqs[p]);
      }
    }
  }
}

struct SgdLists {
  std::vector<Tensor> homes, parameters, gradients, momentum_buffers;
  bool first_step = false;

  void add(const Tensor& home, const Tensor& parameter, const Tensor& gradient, const Tensor& buffer) {
    homes.push_back(home);
    parameters.push_back(parameter);
    gradients.push_back(gradient);
    if (buffer.defined()) momentum_buffers.push_back(buffer);
  }
};

void sgd_kernel(SgdLists& lists, const SGDOptions& options) {
  at::_fused_sgd_(lists.parameters, lists.gradients, lists.momentum_buffers, options.weight_decay(), options.momentum(),
                  options.lr(), options.dampening(), options.nesterov(), /*maximize=*/false, lists.first_step);
  copy_back(lists.homes, lists.parameters);
}

/// SGD's kernel for the CPU computes full vectors of these types and does not store them (pytorch/pytorch#191763).
bool is_skipped(const Tensor& parameter) {
  return parameter.is_cpu() && at::isReducedFloatingType(parameter.scalar_type());
}

/// As the kernel would compute with it: in float32, rounded to its own type once, when it is stored.
Tensor widen(const Tensor& tensor) {
  return tensor.to(at::kFloat);
}

/// A group's parameters for the kernel, and those that it gets one by one.
struct SgdGroup {
  std::map<ListKey, SgdLists> lists;
  std::vector<SgdLists> widened;
};

SgdGroup sgd_group(const States& states, const OptimizerParamGroup& group) {
  const auto& options = static_cast<const SGDOptions&>(group.options());
  SgdGroup lists;
  for (const Tensor& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    const Tensor form = dense(parameter);
    const Tensor gradient = laid_out_as(form, gradient_of(parameter, "SGD"));
    bool first_step = false;
    Tensor buffer;
    if (options.momentum() != 0) {
      const auto* const state = find_state<torch::optim::SGDParamState>(states, parameter);
      first_step = state == nullptr || !state->momentum_buffer().defined();
      buffer = first_step ? at::empty_like(form) : laid_out_as(form, state->momentum_buffer());
    }
    SgdLists& list = is_skipped(parameter) ? lists.widened.emplace_back() : lists.lists[key_of(parameter, first_step)];
    list.first_step = first_step;
    list.add(parameter, form, gradient, buffer);
  }
  return lists;
}

void widened_sgd_kernel(SgdLists& lists, const SGDOptions& options) {
  SgdLists widened{.first_step = lists.first_step};
  const bool has_buffer = !lists.momentum_buffers.empty();
  widened.add(lists.homes[0], widen(lists.parameters[0]), widen(lists.gradients[0]),
              has_buffer ? widen(lists.momentum_buffers[0]) : Tensor());
  sgd_kernel(widened, options);
  if (has_buffer) lists.momentum_buffers[0].copy_(widened.momentum_buffers[0]);
}

void keep_buffers(States& states, const SgdLists& lists) {
  for (size_t i = 0; i < lists.momentum_buffers.size(); ++i) {
    make_state<torch::optim::SGDParamState>(states, lists.homes[i]).momentum_buffer(lists.momentum_buffers[i]);
  }
}

}  // namespace

Tensor AdamW::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  const Tensor loss = call(closure);
  adam_step<AdamWOptions, torch::optim::AdamWParamState>(
      *this, "AdamW", [](AdamLists& list, const AdamWOptions& options) {
        const auto [beta1, beta2] = options.betas();
        at::_fused_adamw_(list.parameters, list.gradients, list.exp_avgs, list.exp_avg_sqs, list.max_exp_avg_sqs,
                          list.steps, options.lr(), beta1, beta2, options.weight_decay(), options.eps(),
                          options.amsgrad(), /*maximize=*/false);
      });
  return loss;
}

Tensor Adam::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  const Tensor loss = call(closure);
  adam_step<AdamOptions, torch::optim::AdamParamState>(*this, "Adam", [](AdamLists& list, const AdamOptions& options) {
    const auto [beta1, beta2] = options.betas();
    at::_fused_adam_(list.parameters, list.gradients, list.exp_avgs, list.exp_avg_sqs, list.max_exp_avg_sqs, list.steps,
                     options.lr(), beta1, beta2, options.weight_decay(), options.eps(), options.amsgrad(),
                     /*maximize=*/false);
  });
  return loss;
}

Tensor SGD::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  const Tensor loss = call(closure);
  std::vector<SgdGroup> groups;
  for (const OptimizerParamGroup& group : param_groups_) groups.push_back(sgd_group(state_, group));
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto& options = static_cast<const SGDOptions&>(param_groups_[i].options());
    for (auto& [key, list] : groups[i].lists) {
      sgd_kernel(list, options);
      keep_buffers(state_, list);
    }
    for (SgdLists& list : groups[i].widened) {
      widened_sgd_kernel(list, options);
      keep_buffers(state_, list);
    }
  }
  return loss;
}

}  // namespace paceline::optim
