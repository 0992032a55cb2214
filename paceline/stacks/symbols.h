// Symbols: turns a Snapshot into stacks that can be read: unwinds it and names its addresses, with libdw.
//
// Unwinding goes by .eh_frame, so it needs no frame pointers; names come from symbol tables, lines and inlined
// functions from line tables where a module has them. Addresses that were named once are remembered by module, so that
// several processes of one program cost little more than one. Nothing is fetched from the network. Not thread-safe.
// Uses some 100 MB while LibTorch's symbols are read: best in a process of its own that ends.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "paceline/stacks/snapshot.h"
#include "paceline/stacks/stack.h"

namespace paceline::stacks {

class Naming;

class Symbols {
 public:
  /// Works on after the process has ended, as long as its program and libraries are still there.
  ProcessStacks name(const Snapshot& snapshot);

  /// Names stacks of one process one by one, from nothing but what was copied of each: such as samples. A stack whose
  /// beginning is not among its frames has a problem. `symbols` outlives it.
  class Stacks {
   public:
    /// `process`: its id and mappings.
    Stacks(Symbols& symbols, Snapshot process);
    ~Stacks();
    ThreadStack name(const ThreadSnapshot& thread);

   private:
    const std::unique_ptr<const Snapshot> process_;
    const std::unique_ptr<Naming> naming_;
  };

 private:
  friend class Naming;

  // By module's path and address in it.
  std::map<std::pair<std::string, uint64_t>, StackFrames> known_;
};

}  // namespace paceline::stacks
