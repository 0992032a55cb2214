#include "paceline/core/type_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace paceline {

std::string type_name(const std::type_info& type) {
  return demangled(type.name());
}

std::string demangled(const char* symbol) {
  if (symbol == nullptr) return "";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(symbol, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 ? name.get() : symbol;
}

}  // namespace paceline
