#include "paceline/optim/optimizer_state.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "paceline/core/error.h"

namespace paceline::optim {
namespace {

using namespace torch::optim;  // the option and state classes of five optimizers
using torch::Tensor;

// What each kind of optimizer keeps. A visitor is called with the name of each field and the field.
template <class Visitor>
void visit(SGDOptions& options, Visitor visitor) {
  visitor("lr", options.lr());
  visitor("momentum", options.momentum());
  visitor("dampening", options.dampening());
  visitor("weight_decay", options.weight_decay());
  visitor("nesterov", options.nesterov());
}
template <class Visitor>
void visit(SGDParamState& state, Visitor visitor) {
  visitor("momentum_buffer", state.momentum_buffer());
}

template <class Options, class Visitor>
void visit_adam_options(Options& options, Visitor& visitor) {
  visitor("lr", options.lr());
  visitor("betas", options.betas());
  visitor("eps", options.eps());
  visitor("weight_decay", options.weight_decay());
  visitor("amsgrad", options.amsgrad());
}
template <class State, class Visitor>
void visit_adam_state(State& state, Visitor& visitor) {
  visitor("step", state.step());
  visitor("exp_avg", state.exp_avg());
  visitor("exp_avg_sq", state.exp_avg_sq());
  visitor("max_exp_avg_sq", state.max_exp_avg_sq());
}
template <class Visitor>
void visit(AdamOptions& options, Visitor visitor) {
  visit_adam_options(options, visitor);
}
template <class Visitor>
void visit(AdamWOptions& options, Visitor visitor) {
  visit_adam_options(options, visitor);
}
template <class Visitor>
void visit(AdamParamState& state, Visitor visitor) {
  visit_adam_state(state, visitor);
}
template <class Visitor>
void visit(AdamWParamState& state, Visitor visitor) {
  visit_adam_state(state, visitor);
}

template <class Visitor>
void visit(AdagradOptions& options, Visitor visitor) {
  visitor("lr", options.lr());
  visitor("lr_decay", options.lr_decay());
  visitor("weight_decay", options.weight_decay());
  visitor("initial_accumulator_value", options.initial_accumulator_value());
  visitor("eps", options.eps());
}
template <class Visitor>
void visit(AdagradParamState& state, Visitor visitor) {
  visitor("step", state.step());
  visitor("sum", state.sum());
}

template <class Visitor>
void visit(RMSpropOptions& options, Visitor visitor) {
  visitor("lr", options.lr());
  visitor("alpha", options.alpha());
  visitor("eps", options.eps());
  visitor("weight_decay", options.weight_decay());
  visitor("momentum", options.momentum());
  visitor("centered", options.centered());
}
template <class Visitor>
void visit(RMSpropParamState& state, Visitor visitor) {
  visitor("step", state.step());
  visitor("square_avg", state.square_avg());
  visitor("momentum_buffer", state.momentum_buffer());
  visitor("grad_avg", state.grad_avg());
}

template <class OptionsClass, class StateClass>
struct Kind {
  using Options = OptionsClass;
  using State = StateClass;
  const char* name;
};

/// Calls `function` with the Kind of the optimizer.
template <class Function>
auto with_kind(const Optimizer& optimizer, Function function) {
  const OptimizerOptions& defaults = optimizer.defaults();
  if (dynamic_cast<const AdamWOptions*>(&defaults)) return function(Kind<AdamWOptions, AdamWParamState>{"AdamW"});
  if (dynamic_cast<const AdamOptions*>(&defaults)) return function(Kind<AdamOptions, AdamParamState>{"Adam"});
  if (dynamic_cast<const SGDOptions*>(&defaults)) return function(Kind<SGDOptions, SGDParamState>{"SGD"});
  if (dynamic_cast<const AdagradOptions*>(&defaults)) {
    return function(Kind<AdagradOptions, AdagradParamState>{"Adagrad"});
  }
  if (dynamic_cast<const RMSpropOptions*>(&defaults)) {
    return function(Kind<RMSpropOptions, RMSpropParamState>{"RMSprop"});
  }
  throw ConfigError(
      "checkpoints know the state of SGD, Adam, AdamW, Adagrad and RMSprop; this optimizer is of another kind. Make it "
      "a paceline::Stateful of its own");
}

const std::string& name_of(const Tensor& parameter, const ParameterNames& names) {
  const auto found = names.find(parameter.unsafeGetTensorImpl());
  if (found == names.end()) {
    throw ConfigError("the optimizer holds a parameter of shape " + c10::str(parameter.sizes()) +
                      " that is not one of the model's; give the model whose parameters() the optimizer was made with");
  }
  return found->second;
}

std::vector<std::string> names_of(const OptimizerParamGroup& group, const ParameterNames& names) {
  std::vector<std::string> result;
  for (const Tensor& parameter : group.params()) result.push_back(name_of(parameter, names));
  return result;
}

std::string list_of(const std::set<std::string>& names) {
  constexpr size_t kShown = 5;
  std::string text;
  size_t count = 0;
  for (const std::string& name : names) {
    if (count++ == kShown) return text + ", … (" + std::to_string(names.size()) + ")";
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "none" : text;
}

/// ConfigError unless the groups of the state hold the parameters of the optimizer's groups.
void check_groups(const std::vector<OptimizerParamGroup>& groups, const ParameterNames& names, const Json& saved) {
  if (!saved.is_array() || saved.size() != groups.size()) {
    throw ConfigError("the saved optimizer has " + std::to_string(saved.is_array() ? saved.size() : 0) +
                      " parameter groups, this one has " + std::to_string(groups.size()) +
                      "; make the optimizer with the groups that it was saved with, or leave it out of what is loaded");
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto mine = names_of(groups[i], names);
    const auto theirs = saved[i].at("parameters").get<std::vector<std::string>>();
    std::set<std::string> only_mine(mine.begin(), mine.end());
    std::set<std::string> only_theirs(theirs.begin(), theirs.end());
    for (const std::string& name : theirs) only_mine.erase(name);
    for (const std::string& name : mine) only_theirs.erase(name);
    if (only_mine.empty() && only_theirs.empty()) continue;
    throw ConfigError("parameter group " + std::to_string(i) +
                      " of the optimizer does not fit the saved one: missing " +
                      "in the saved state: " + list_of(only_mine) + "; left over in it: " + list_of(only_theirs) +
                      ". Give the groups the parameters that they were saved with, or leave the optimizer out of what "
                      "is loaded");
  }
}

/// Takes the state of one parameter out of `tensors` and `steps`; null when there is none.
template <class State>
std::unique_ptr<OptimizerParamState> take_state(const Tensor& parameter, const std::string& name,
                                                std::map<std::string, Tensor>& tensors, Json& steps) {
  auto state = std::make_unique<State>();
  bool found = false;
  visit(*state, [&](const char* field, auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Tensor>) {
      const auto tensor = tensors.find(name + "." + field);
      if (tensor == tensors.end()) return;
      if (tensor->second.sizes() != parameter.sizes()) {
        throw ConfigError("the saved optimizer state " + tensor->first + " has shape " +
                          c10::str(tensor->second.sizes()) + ", the parameter has " + c10::str(parameter.sizes()) +
                          "; build the model as it was saved, or leave the optimizer out of what is loaded");
      }
      value = at::empty_like(parameter, parameter.options().requires_grad(false)).copy_(tensor->second);
      tensors.erase(tensor);
      found = true;
    } else if (const auto step = steps.find(name); step != steps.end()) {
      value = step->template get<int64_t>();
      steps.erase(step);
      found = true;
    }
  });
  return found ? std::move(state) : nullptr;
}

}  // namespace

ParameterNames parameter_names(const torch::nn::Module& module) {
  ParameterNames names;
  for (const auto& parameter : module.named_parameters()) {
    names.emplace(parameter.value().unsafeGetTensorImpl(), parameter.key());
  }
  return names;
}

StateDict optimizer_state(const Optimizer& optimizer, const ParameterNames& names) {
  return with_kind(optimizer, [&](auto kind) {
    using Kind = decltype(kind);
    StateDict result;
    result.values = {{"kind", kind.name}, {"groups", Json::array()}, {"steps", Json::object()}};
    for (const OptimizerParamGroup& group : optimizer.param_groups()) {
      Json saved = {{"parameters", names_of(group, names)}};
      auto options = static_cast<const typename Kind::Options&>(group.options());
      visit(options, [&saved](const char* field, const auto& value) { saved[field] = value; });
      result.values["groups"].push_back(std::move(saved));
      for (const Tensor& parameter : group.params()) {
        const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
        if (found == optimizer.state().end()) continue;
        const std::string& name = name_of(parameter, names);
        visit(dynamic_cast<typename Kind::State&>(*found->second), [&](const char* field, const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Tensor>) {
            if (value.defined()) result.tensors[name + "." + field] = value.detach();
          } else {
            result.values["steps"][name] = value;
          }
        });
      }
    }
    return result;
  });
}

void load_optimizer_state(Optimizer& optimizer, const ParameterNames& names, const StateDict& state) try {
  const at::NoGradGuard no_grad;
  with_kind(optimizer, [&](auto kind) {
    using Kind = decltype(kind);
    const std::string saved_kind = state.values.value("kind", "nothing");
    if (saved_kind != kind.name) {
      throw ConfigError("the saved optimizer state is of " + saved_kind + ", this optimizer is " + kind.name +
                        "; make the same kind of optimizer, or leave it out of what is loaded");
    }
    const Json& saved_groups = state.values.at("groups");
    check_groups(optimizer.param_groups(), names, saved_groups);

    auto tensors = state.tensors;
    Json steps = state.values.value("steps", Json::object());
    std::vector<std::pair<void*, std::unique_ptr<OptimizerParamState>>> loaded;
    for (const OptimizerParamGroup& group : optimizer.param_groups()) {
      for (const Tensor& parameter : group.params()) {
        auto taken = take_state<typename Kind::State>(parameter, name_of(parameter, names), tensors, steps);
        if (taken) loaded.emplace_back(parameter.unsafeGetTensorImpl(), std::move(taken));
      }
    }
    if (!tensors.empty()) {
      throw ConfigError("the saved optimizer state has \"" + tensors.begin()->first + "\", which " + kind.name +
                        " does not keep");
    }
    std::vector<typename Kind::Options> options;
    for (size_t i = 0; i < optimizer.param_groups().size(); ++i) {
      options.push_back(static_cast<const typename Kind::Options&>(optimizer.param_groups()[i].options()));
      visit(options.back(), [&](const char* field, auto& value) { saved_groups[i].at(field).get_to(value); });
    }

    // Nothing throws from here on.
    optimizer.state().clear();
    for (auto& [parameter, taken] : loaded) optimizer.state()[parameter] = std::move(taken);
    for (size_t i = 0; i < options.size(); ++i) {
      static_cast<typename Kind::Options&>(optimizer.param_groups()[i].options()) = options[i];
    }
  });
} catch (const Json::exception& error) {
  throw ConfigError(std::string("the saved state is not that of an optimizer: ") + error.what());
}

}  // namespace paceline::optim
