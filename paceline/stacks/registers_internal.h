// The registers of a thread that a signal has interrupted, as stacks/snapshot.h numbers them. Async-signal-safe.
#pragma once

#include <ucontext.h>

#include "paceline/stacks/snapshot.h"

namespace paceline::stacks {

inline Registers registers_of(const ucontext_t& context) {
  const auto at = [&context](int number) { return static_cast<uint64_t>(context.uc_mcontext.gregs[number]); };
  return {at(REG_RAX), at(REG_RDX), at(REG_RCX), at(REG_RBX), at(REG_RSI), at(REG_RDI),
          at(REG_RBP), at(REG_RSP), at(REG_R8),  at(REG_R9),  at(REG_R10), at(REG_R11),
          at(REG_R12), at(REG_R13), at(REG_R14), at(REG_R15), at(REG_RIP)};
}

}  // namespace paceline::stacks
