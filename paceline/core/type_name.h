// Names of types and functions for readers.
#pragma once

#include <string>
#include <typeinfo>

namespace paceline {

/// As it is written in C++: "std::runtime_error".
std::string type_name(const std::type_info& type);
/// A symbol as it is written in C++; what is no name of C++ comes back as it is, a null pointer as "".
std::string demangled(const char* symbol);

}  // namespace paceline
