// Names of types for readers.
#pragma once

#include <string>
#include <typeinfo>

namespace paceline {

/// As it is written in C++: "std::runtime_error".
std::string type_name(const std::type_info& type);

}  // namespace paceline
