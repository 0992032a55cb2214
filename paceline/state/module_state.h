// A module's state as Python's state_dict names it: parameters and buffers, nested names joined by dots.
#pragma once

#include "paceline/state/stateful.h"

namespace paceline {

/// Parameters and buffers of `module` and its submodules; the tensors share storage with the module.
StateDict module_state(const torch::nn::Module& module);

/// Copies `state` into the module's parameters and buffers, keeping their devices and types. ConfigError naming what is
/// missing, left over, of another shape, or of a type that would lose its meaning (a float in an integer buffer);
/// nothing is changed then.
void load_module_state(torch::nn::Module& module, const StateDict& state);

}  // namespace paceline
