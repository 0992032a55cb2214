// Which calls a thread was in, from its registers and a copy of its stack. By .eh_frame, and where a kernel has none by
// what its caller has left on the stack. Not thread-safe.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/stacks/modules_internal.h"
#include "paceline/stacks/snapshot.h"

namespace paceline::stacks {

class Unwinder {
 public:
  /// `modules` are of process `pid` and outlive it. `from_copies`: what was not copied of a stack is not read from the
  /// process, where it has changed since.
  Unwinder(Modules& modules, pid_t pid, bool from_copies);
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  /// Addresses of instructions, innermost first: of all but the innermost the call. `problem` says why its beginning is
  /// not among them.
  std::vector<uint64_t> unwind(const ThreadSnapshot& thread, std::string& problem);

 private:
  // How far an unwinding has come.
  struct Walk {
    Unwinder* unwinder = nullptr;
    std::vector<uint64_t> addresses;
    int result = 0;
    bool is_stuck = false;  // at the last one, of which no table says who has called it
    Registers registers{};  // there
    bool lacks_stack = false;
  };

  static bool get_thread(Dwfl*, pid_t, void* self, void** thread);
  static bool set_registers(Dwfl_Thread* thread, void* self);
  static bool read_memory(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* self);
  static int take_frame(Dwfl_Frame* frame, void* into);
  static const Dwfl_Thread_Callbacks kThreadCallbacks;

  Walk walk_from(const ThreadSnapshot& thread);
  bool find_caller(ThreadSnapshot& thread, Walk& walk);
  int rank_of(const Modules::ReturnPlace& place, uint64_t here);

  Modules& modules_;
  const bool from_copies_;
  const ThreadSnapshot* thread_ = nullptr;
  bool lacks_stack_ = false;  // something was wanted that is in no copy
};

}  // namespace paceline::stacks
