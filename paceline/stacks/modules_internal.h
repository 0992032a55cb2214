// The programs and libraries of a process, by its mappings: which one an address is in, and what its tables, symbols
// and code say about it. What was looked up once is remembered. Not thread-safe.
#pragma once

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "paceline/stacks/function_index_internal.h"
#include "paceline/stacks/mapping_internal.h"

namespace paceline::stacks {

class Modules {
 public:
  /// `maps`: /proc/PID/maps.
  explicit Modules(const std::string& maps);

  /// nullptr: libdwfl could not be used.
  Dwfl* dwfl() const { return dwfl_.get(); }
  const Mapping* mapping(uint64_t address) const { return mappings_.find(address); }
  /// nullptr for what is in no program or library, such as code that was generated. libdwfl alone would give a module
  /// some of what is mapped behind it, too.
  Dwfl_Module* at(uint64_t address) const;

  /// Whether a table says how to unwind there.
  bool has_table(uint64_t address);
  /// Whether the table says that nobody has called what is there: _start, and where a thread begins.
  bool begins_thread(uint64_t address) const;

  /// Where a call may return to: behind a call, in a function with a table.
  struct ReturnPlace {
    Call call = Call::none;
    uint64_t target = 0;  ///< of a direct one, where a function begins
  };
  ReturnPlace return_place(uint64_t address);

  const FunctionIndex& functions_of(Dwfl_Module* module);
  /// Of the function that has this address; 0 where nobody knows.
  uint64_t function_start(uint64_t address);
  /// Whether the function that begins at `function` jumps to the beginning of another: its last call may be a jump.
  bool jumps_to(uint64_t function, uint64_t other);

 private:
  struct End {
    void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  using Table = std::unique_ptr<Dwarf_Frame, Free>;
  // The bytes of a section of code around an address; null where there are none.
  struct Code {
    const uint8_t* at = nullptr;
    size_t before = 0;
    size_t behind = 0;
  };

  Table table_at(uint64_t address) const;
  Code code_at(uint64_t address) const;
  ReturnPlace look_for_call(uint64_t address);
  bool look_for_jump(uint64_t function, uint64_t other);

  const Mappings mappings_;
  std::unique_ptr<Dwfl, End> dwfl_;
  std::map<uint64_t, uint64_t> images_;           // by start: their ends
  std::unordered_map<uint64_t, bool> has_table_;  // by address
  std::unordered_map<uint64_t, ReturnPlace> return_places_;
  std::map<std::pair<uint64_t, uint64_t>, bool> jumps_;
  std::map<Dwfl_Module*, FunctionIndex> functions_;
};

}  // namespace paceline::stacks
