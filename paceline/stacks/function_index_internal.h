// What a module's code says about addresses: which function they are in, and whether a call may return there.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::stacks {

/// The functions of a module, by address. libdwfl looks at every symbol for each address: this sorts them once.
class FunctionIndex {
 public:
  explicit FunctionIndex(Dwfl_Module* module);
  /// Its symbol, which lives as long as the module; "" for an address of no function.
  const char* at(uint64_t address) const;
  /// Where it begins; 0 likewise.
  uint64_t start_of(uint64_t address) const;
  /// How many bytes it has; 0 likewise.
  uint64_t size_of(uint64_t address) const;

 private:
  struct Function;
  const Function* find(uint64_t address) const;

  struct Function {
    uint64_t start = 0;
    uint64_t size = 0;
    int rank = 0;  // of several at a place the lowest names it
    const char* name = nullptr;
  };

  std::vector<Function> functions_;
};

enum class Call { none, indirect, direct };

/// What call of x86-64 the last of the bytes before `end` are, of which so many can be read. A direct one goes to
/// `end` + `distance`.
Call call_before(const uint8_t* end, size_t readable, int32_t& distance);

}  // namespace paceline::stacks
