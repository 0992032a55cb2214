// Snapshot: the raw material of a process's stacks: registers and a copy of each thread's stack memory, or addresses
// that the process has collected itself. Names are found later, when the process runs on.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline::stacks {

/// DWARF's numbers of x86-64: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, and the return address column: rip.
using Registers = std::array<uint64_t, 17>;
inline constexpr size_t kStackPointer = 7;
inline constexpr size_t kProgramCounter = 16;

struct ThreadSnapshot {
  pid_t tid = 0;
  std::string name;
  std::string state;
  Registers registers{};
  uint64_t stack_start = 0;  // where `stack` was in the process
  std::vector<std::byte> stack;
  std::vector<uint64_t> addresses;  // instead of registers and stack: innermost first, each the instruction itself
  std::string problem;
};

struct Snapshot {
  pid_t pid = 0;
  std::string maps;  // /proc/PID/maps
  std::vector<ThreadSnapshot> threads;
  double longest_pause_s = 0;
};

}  // namespace paceline::stacks
