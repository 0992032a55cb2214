// A callback written in Python as a UserCallback of the controller. Threading: made and destroyed anywhere; it takes
// the GIL itself.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "paceline/controller/callback.h"

namespace paceline::python {

/// `target` is an Adapter of paceline.train.callback.
std::shared_ptr<UserCallback> make_callback(pybind11::object target);

}  // namespace paceline::python
