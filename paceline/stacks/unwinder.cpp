#include <sys/uio.h>

#include <cstring>
#include <optional>
#include <utility>

#include "paceline/stacks/unwinder_internal.h"

namespace paceline::stacks {
namespace {

constexpr size_t kMostFrames = 200;

// Of stretches of a stack without tables: how many, how wide, how many frames are unwound to look who has called, and
// how many further ones show that a guess was good.
constexpr int kMostGaps = 4;
constexpr uint64_t kWidestGap = uint64_t{16} << 10;
constexpr size_t kMostGuessedFrames = 1000;
constexpr size_t kConvincing = 3;

}  // namespace

const Dwfl_Thread_Callbacks Unwinder::kThreadCallbacks = {
    .next_thread = [](Dwfl*, void*, void**) -> pid_t { return 0; },
    .get_thread = get_thread,
    .memory_read = read_memory,
    .set_initial_registers = set_registers,
    .detach = nullptr,
    .thread_detach = nullptr};

Unwinder::Unwinder(Modules& modules, pid_t pid, bool from_copies) : modules_(modules), from_copies_(from_copies) {
  if (modules.dwfl() != nullptr) dwfl_attach_state(modules.dwfl(), nullptr, pid, &kThreadCallbacks, this);
}

bool Unwinder::get_thread(Dwfl*, pid_t, void* self, void** thread) {
  *thread = self;
  return true;
}

bool Unwinder::set_registers(Dwfl_Thread* thread, void* self) {
  const Registers& registers = static_cast<Unwinder*>(self)->thread_->registers;
  return dwfl_thread_state_registers(thread, 0, registers.size(), registers.data());
}

// From the copy of the stack; what lies elsewhere (another stack of a signal's handler) from the process as it is now.
bool Unwinder::read_memory(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* self) {
  auto& unwinder = *static_cast<Unwinder*>(self);
  const ThreadSnapshot& thread = *unwinder.thread_;
  const uint64_t offset = address - thread.stack_start;
  if (address >= thread.stack_start && offset + sizeof *word <= thread.stack.size()) {
    std::memcpy(word, thread.stack.data() + offset, sizeof *word);
    return true;
  }
  if (unwinder.from_copies_) {
    unwinder.lacks_stack_ = true;
    return false;
  }
  iovec local{word, sizeof *word};
  iovec remote{reinterpret_cast<void*>(address), sizeof *word};
  return ::process_vm_readv(thread.tid, &local, 1, &remote, 1, 0) == ssize_t{sizeof *word};
}

int Unwinder::take_frame(Dwfl_Frame* frame, void* into) {
  auto& walk = *static_cast<Walk*>(into);
  walk.unwinder->lacks_stack_ = false;  // for a register that nobody needed
  Dwarf_Addr address = 0;
  bool interrupted_here = false;
  if (!dwfl_frame_pc(frame, &address, &interrupted_here)) return DWARF_CB_ABORT;
  walk.addresses.push_back(interrupted_here ? address : address - 1);  // the call, not what follows it
  // libdwfl would go on by the frame pointer, which need not be one.
  if (walk.unwinder->from_copies_ && !walk.unwinder->modules_.has_table(walk.addresses.back())) {
    walk.is_stuck = true;
    for (unsigned i = 0; i < walk.registers.size(); ++i) dwfl_frame_reg(frame, i, &walk.registers[i]);
    return DWARF_CB_ABORT;
  }
  return walk.addresses.size() < kMostFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
}

Unwinder::Walk Unwinder::walk_from(const ThreadSnapshot& thread) {
  Walk walk{.unwinder = this, .result = -1};
  if (modules_.dwfl() == nullptr) return walk;
  thread_ = &thread;
  lacks_stack_ = false;
  walk.result = dwfl_getthread_frames(modules_.dwfl(), thread.tid, take_frame, &walk);
  walk.lacks_stack = lacks_stack_;
  return walk;
}

std::vector<uint64_t> Unwinder::unwind(const ThreadSnapshot& thread, std::string& problem) {
  ThreadSnapshot caller = thread;
  thread_ = &caller;
  std::vector<uint64_t> before;
  // After a call through a bad pointer the counter is nowhere; the call has left the caller's address on the stack.
  Dwarf_Word return_address = 0;
  const bool nowhere = !from_copies_ && modules_.mapping(thread.registers[kProgramCounter]) == nullptr;
  if (nowhere && read_memory(nullptr, thread.registers[kStackPointer], &return_address, this)) {
    before.push_back(thread.registers[kProgramCounter]);
    caller.registers[kProgramCounter] = return_address;
    caller.registers[kStackPointer] += sizeof return_address;
  }
  Walk walk = walk_from(caller);
  for (int gaps = 0; gaps < kMostGaps && walk.is_stuck && find_caller(caller, walk); ++gaps) {
  }
  walk.addresses.insert(walk.addresses.begin(), before.begin(), before.end());
  if (walk.addresses.size() >= kMostFrames) {
    problem = "more frames follow";
  } else if (walk.lacks_stack) {
    problem = "deeper than its copy";
  } else if (walk.result != 0 && (from_copies_ || walk.addresses.size() < 2)) {
    problem = walk.is_stuck ? "no table says who has called it" : std::string("unwound no further: ") + dwfl_errmsg(-1);
  }
  return walk.addresses;
}

// How sure it is that a word that leads there was left by the call of the function that begins at `here`: a call of
// this very function, or of one that jumps to it, tells best (0), then one whose target nothing tells (1).
int Unwinder::rank_of(const Modules::ReturnPlace& place, uint64_t here) {
  if (place.call == Call::none) return 3;
  if (place.call == Call::indirect) return 1;
  return here != 0 && (place.target == here || modules_.jumps_to(place.target, here)) ? 0 : 2;
}

// Kernels of MKL and oneDNN have no tables, and are where the time goes. Above them on the stack stands where they
// return to: a word that is behind a call, and from which the unwinding comes further. Words that earlier calls have
// left look the same.
bool Unwinder::find_caller(ThreadSnapshot& thread, Walk& walk) {
  const uint64_t here = modules_.function_start(walk.addresses.back());
  const uint64_t start = (walk.registers[kStackPointer] + 7) / 8 * 8;
  std::optional<Walk> best;
  int best_rank = 3;
  size_t guessed = 0;
  walk.lacks_stack = false;
  for (uint64_t at = start; at < start + kWidestGap && guessed < kMostGuessedFrames && best_rank > 0; at += sizeof at) {
    Dwarf_Word word = 0;
    thread_ = &thread;
    if (!read_memory(nullptr, at, &word, this)) break;
    const int rank = rank_of(modules_.return_place(word), here);
    if (rank >= best_rank) continue;
    thread.registers = walk.registers;
    thread.registers[kProgramCounter] = word - 1;
    thread.registers[kStackPointer] = at + sizeof word;
    Walk next = walk_from(thread);
    guessed += next.addresses.size();
    // A walk from a word that is none of the stack's ends soon, at the first zero.
    const bool has_begun = next.result == 0 && !next.lacks_stack && modules_.begins_thread(next.addresses.back());
    if (!has_begun && next.addresses.size() < kConvincing) continue;
    best = std::move(next);
    best_rank = rank;
  }
  if (!best) return false;
  best->addresses.insert(best->addresses.begin(), walk.addresses.begin(), walk.addresses.end());
  walk = *std::move(best);
  return true;
}

}  // namespace paceline::stacks
