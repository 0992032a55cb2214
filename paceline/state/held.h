// held(): what a smart pointer to an object of the user's holds; whoever takes a module or an optimizer takes a
// std::unique_ptr, a std::shared_ptr or a module holder of one too.
#pragma once

#include <concepts>
#include <string>

#include "paceline/core/error.h"

namespace paceline {

/// A smart pointer, or a plain one, to a T or to what is derived from it.
template <class Pointer, class T>
concept PointerTo = requires(const Pointer& pointer) {
  { *pointer } -> std::convertible_to<T&>;
  pointer == nullptr;
};

/// UsageError naming `what`, such as "an optimizer", when the pointer is null.
template <class Pointer>
auto& held(const Pointer& pointer, const char* what) {
  if (pointer == nullptr) throw UsageError(std::string("got a null pointer in place of ") + what);
  return *pointer;
}

}  // namespace paceline
