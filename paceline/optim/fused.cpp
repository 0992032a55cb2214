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

template <class State>
State& state_of(ska::flat_hash_map<void*, std::unique_ptr<torch::optim::OptimizerParamState>>& states,
                const Tensor& parameter) {
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

/// One step of Adam or AdamW: `kernel` is given the lists and options of each group.
template <class Options, class State, class Kernel>
void adam_step(Optimizer& optimizer, const char* name, Kernel kernel) {
  StepTensors step_tensors;
  for (OptimizerParamGroup& group : optimizer.param_groups()) {
    const auto& options = static_cast<const Options&>(group.options());
    std::map<ListKey, AdamLists> lists;
    for (const Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      AdamLists& list = lists[key_of(parameter)];
      const Tensor form = dense(parameter);
      list.gradients.push_back(laid_out_as(form, gradient_of(parameter, name)));
      auto& state = state_of<State>(optimizer.state(), parameter);
      const auto moment = [&form](const Tensor& value) {
        return value.defined() ? laid_out_as(form, value) : at::zeros_like(form, at::MemoryFormat::Preserve);
      };
      state.step(state.step() + 1);
      state.exp_avg(moment(state.exp_avg()));
      state.exp_avg_sq(moment(state.exp_avg_sq()));
      if (options.amsgrad()) {
        state.max_exp_avg_sq(moment(state.max_exp_avg_sq()));
        list.max_exp_avg_sqs.push_back(state.max_exp_avg_sq());
      }
      list.homes.push_back(parameter);
      list.parameters.push_back(form);
      list.exp_avgs.push_back(state.exp_avg());
      list.exp_avg_sqs.push_back(state.exp_avg_sq());
      list.steps.push_back(step_tensors.at(state.step(), parameter.device()));
    }
    for (auto& [key, list] : lists) {
      kernel(list, options);
      copy_back(list.homes, list.parameters);
    }
  }
}

struct SgdLists {
  std::vector<Tensor> homes, parameters, gradients, momentum_buffers;

  void add(const Tensor& home, const Tensor& parameter, const Tensor& gradient, const Tensor& buffer) {
    homes.push_back(home);
    parameters.push_back(parameter);
    gradients.push_back(gradient);
    if (buffer.defined()) momentum_buffers.push_back(buffer);
  }
};

void sgd_kernel(SgdLists& lists, const SGDOptions& options, bool first_step) {
  at::_fused_sgd_(lists.parameters, lists.gradients, lists.momentum_buffers, options.weight_decay(), options.momentum(),
                  options.lr(), options.dampening(), options.nesterov(), /*maximize=*/false, first_step);
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
  for (OptimizerParamGroup& group : param_groups_) {
    const auto& options = static_cast<const SGDOptions&>(group.options());
    std::map<ListKey, SgdLists> lists;
    for (const Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      const Tensor form = dense(parameter);
      const Tensor gradient = laid_out_as(form, gradient_of(parameter, "SGD"));
      bool first_step = false;
      Tensor buffer;
      if (options.momentum() != 0) {
        auto& state = state_of<torch::optim::SGDParamState>(state_, parameter);
        first_step = !state.momentum_buffer().defined();
        buffer = first_step ? at::empty_like(form) : laid_out_as(form, state.momentum_buffer());
        state.momentum_buffer(buffer);
      }
      if (is_skipped(parameter)) {
        SgdLists widened;
        widened.add(parameter, widen(form), widen(gradient), buffer.defined() ? widen(buffer) : Tensor());
        sgd_kernel(widened, options, first_step);
        if (buffer.defined()) buffer.copy_(widened.momentum_buffers[0]);
        continue;
      }
      lists[key_of(parameter, first_step)].add(parameter, form, gradient, buffer);
    }
    for (auto& [key, list] : lists) sgd_kernel(list, options, /*first_step=*/std::get<3>(key));
  }
  return loss;
}

}  // namespace paceline::optim
