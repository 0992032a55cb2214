// JSON values as Python objects: dict, list, str, int, float, bool, None, both ways.
//
// Python's tuples become lists, numpy's and torch's numbers (whatever has item() and no length) plain numbers. What
// JSON cannot hold is a TypeError that names where it is: "metrics['eval']['model'] is a Linear; …". Threading: the
// caller holds the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "paceline/core/json.h"

namespace paceline::python {

/// `place` names the object in an error: "metrics".
Json to_json(const pybind11::handle& object, const std::string& place);
pybind11::object to_python(const Json& value);

}  // namespace paceline::python
