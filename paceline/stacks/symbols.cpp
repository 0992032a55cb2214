#include "paceline/stacks/symbols.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "paceline/core/type_name.h"
#include "paceline/stacks/function_index_internal.h"
#include "paceline/stacks/mapping_internal.h"

namespace paceline::stacks {
namespace {

constexpr size_t kMostFrames = 200;
constexpr size_t kLongestName = 200;

// Of stretches of a stack without tables: how many, how wide, what is tried in each, and how many frames further show
// that a guess was good.
constexpr int kMostGaps = 4;
constexpr uint64_t kWidestGap = uint64_t{16} << 10;
constexpr int kMostGuesses = 16;
constexpr size_t kConvincing = 3;

std::string short_name(const char* symbol) {
  std::string text = demangled(symbol);
  if (text.size() > kLongestName) text.replace(kLongestName - 3, std::string::npos, "...");
  return text;
}

std::string file_name(const char* path) {
  if (path == nullptr) return "";
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

// The mangled name where there is one: the plain one has neither namespaces nor arguments.
std::string function_of(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  for (const unsigned name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    if (dwarf_attr_integrate(die, name, &attribute) != nullptr) return short_name(dwarf_formstring(&attribute));
  }
  const char* plain = dwarf_diename(die);
  return plain == nullptr ? "" : plain;
}

int64_t number_of(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_attr(die, name, &attribute) == nullptr || dwarf_formudata(&attribute, &value) != 0) return 0;
  return static_cast<int64_t>(value);
}

// Where the function that `die` inlines was called from.
std::pair<std::string, int64_t> call_site(Dwarf_Die* unit, Dwarf_Die* die) {
  Dwarf_Files* files = nullptr;
  size_t count = 0;
  const auto index = static_cast<size_t>(number_of(die, DW_AT_call_file));
  if (dwarf_getsrcfiles(unit, &files, &count) != 0 || index >= count) return {};
  return {file_name(dwarf_filesrc(files, index, nullptr, nullptr)), number_of(die, DW_AT_call_line)};
}

int find_debuginfo(Dwfl_Module* module, void** data, const char* name, Dwarf_Addr base, const char* file,
                   const char* link, GElf_Word checksum, char** found) {
  // The standard one would also ask servers in the network.
  return dwfl_build_id_find_debuginfo(module, data, name, base, file, link, checksum, found);
}

const Dwfl_Callbacks kModuleCallbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                         .find_debuginfo = find_debuginfo,
                                         .section_address = dwfl_offline_section_address,
                                         .debuginfo_path = nullptr};

}  // namespace

// One snapshot with the modules of its process.
class Naming {
 public:
  /// `from_copies`: what was not copied of a stack is not read from the process, where it has changed since.
  Naming(const Snapshot& snapshot, Symbols& symbols, bool from_copies)
      : snapshot_(snapshot), mappings_(snapshot.maps), symbols_(symbols), from_copies_(from_copies) {
    dwfl_.reset(dwfl_begin(&kModuleCallbacks));
    std::string modules = without_data_files(snapshot.maps);
    const std::unique_ptr<std::FILE, decltype(&std::fclose)> maps(::fmemopen(modules.data(), modules.size(), "r"),
                                                                  &std::fclose);
    if (dwfl_ == nullptr || maps == nullptr) return;
    dwfl_report_begin(dwfl_.get());
    dwfl_linux_proc_maps_report(dwfl_.get(), maps.get());
    dwfl_report_end(dwfl_.get(), nullptr, nullptr);
    dwfl_attach_state(dwfl_.get(), nullptr, snapshot.pid, &kThreadCallbacks, this);
  }

  ThreadStack name(const ThreadSnapshot& thread) {
    ThreadStack result{
        .tid = thread.tid, .name = thread.name, .state = thread.state, .frames = {}, .problem = thread.problem};
    std::vector<uint64_t> addresses = thread.addresses;
    if (addresses.empty() && thread.problem.empty()) addresses = unwind(thread, result.problem);
    for (const uint64_t address : addresses) {
      for (StackFrame& frame : frames_at(address)) result.frames.push_back(std::move(frame));
    }
    return result;
  }

 private:
  struct End {
    void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
  };

  static pid_t next_thread(Dwfl*, void*, void**) { return 0; }
  static bool get_thread(Dwfl*, pid_t, void* self, void** thread) {
    *thread = self;
    return true;
  }
  static bool set_registers(Dwfl_Thread* thread, void* self) {
    const Registers& registers = static_cast<Naming*>(self)->thread_->registers;
    return dwfl_thread_state_registers(thread, 0, registers.size(), registers.data());
  }
  // From the copy of the stack; what lies elsewhere (another stack of a signal's handler) from the process as it is
  // now.
  static bool read_memory(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* self) {
    const ThreadSnapshot& thread = *static_cast<Naming*>(self)->thread_;
    const uint64_t offset = address - thread.stack_start;
    if (address >= thread.stack_start && offset + sizeof *word <= thread.stack.size()) {
      std::memcpy(word, thread.stack.data() + offset, sizeof *word);
      return true;
    }
    if (static_cast<Naming*>(self)->from_copies_) {
      static_cast<Naming*>(self)->lacks_stack_ = true;
      return false;
    }
    iovec local{word, sizeof *word};
    iovec remote{reinterpret_cast<void*>(address), sizeof *word};
    return ::process_vm_readv(thread.tid, &local, 1, &remote, 1, 0) == ssize_t{sizeof *word};
  }
  static constexpr Dwfl_Thread_Callbacks kThreadCallbacks = {.next_thread = next_thread,
                                                             .get_thread = get_thread,
                                                             .memory_read = read_memory,
                                                             .set_initial_registers = set_registers,
                                                             .detach = nullptr,
                                                             .thread_detach = nullptr};

  // How far an unwinding has come.
  struct Walk {
    Naming* naming = nullptr;
    std::vector<uint64_t> addresses;
    int result = 0;
    bool is_stuck = false;  // at the last one, of which no table says who has called it
    Registers registers{};  // there
    bool lacks_stack = false;
  };

  static int take_frame(Dwfl_Frame* frame, void* into) {
    auto& walk = *static_cast<Walk*>(into);
    walk.naming->lacks_stack_ = false;  // for a register that nobody needed
    Dwarf_Addr address = 0;
    bool interrupted_here = false;
    if (!dwfl_frame_pc(frame, &address, &interrupted_here)) return DWARF_CB_ABORT;
    walk.addresses.push_back(interrupted_here ? address : address - 1);  // the call, not what follows it
    // libdwfl would go on by the frame pointer, which need not be one.
    if (walk.naming->from_copies_ && !walk.naming->has_table(walk.addresses.back())) {
      walk.is_stuck = true;
      for (unsigned i = 0; i < walk.registers.size(); ++i) dwfl_frame_reg(frame, i, &walk.registers[i]);
      return DWARF_CB_ABORT;
    }
    return walk.addresses.size() < kMostFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
  }

  Walk walk_from(const ThreadSnapshot& thread) {
    Walk walk{.naming = this};
    thread_ = &thread;
    lacks_stack_ = false;
    walk.result = dwfl_getthread_frames(dwfl_.get(), thread.tid, take_frame, &walk);
    return walk;
  }

  std::vector<uint64_t> unwind(const ThreadSnapshot& thread, std::string& problem) {
    ThreadSnapshot caller = thread;
    thread_ = &caller;
    std::vector<uint64_t> before;
    // After a call through a bad pointer the counter is nowhere; the call has left the caller's address on the stack.
    Dwarf_Word return_address = 0;
    const bool nowhere = !from_copies_ && !mappings_.find(thread.registers[kProgramCounter]);
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
    } else if (lacks_stack_) {
      problem = "deeper than its copy";
    } else if (walk.result != 0 && (from_copies_ || walk.addresses.size() < 2)) {
      problem =
          walk.is_stuck ? "no table says who has called it" : std::string("unwound no further: ") + dwfl_errmsg(-1);
    }
    return walk.addresses;
  }

  // Kernels of MKL and oneDNN have no tables, and are where the time goes. Above them on the stack stands where they
  // return to: a word that is behind a call, and from which the unwinding comes further. Words that earlier calls have
  // left look the same; a call of this very function tells best, then one whose target nothing tells.
  bool find_caller(ThreadSnapshot& thread, Walk& walk) {
    const uint64_t here = function_start(walk.addresses.back());
    const uint64_t start = (walk.registers[kStackPointer] + 7) / 8 * 8;
    std::optional<Walk> best;
    int best_rank = 3;
    int guesses = 0;
    for (uint64_t at = start; at < start + kWidestGap && guesses < kMostGuesses && best_rank > 0; at += sizeof at) {
      Dwarf_Word word = 0;
      thread_ = &thread;
      if (!read_memory(nullptr, at, &word, this)) break;
      const ReturnPlace place = return_place(word);
      const int rank = place.call == Call::direct ? (here != 0 && place.target == here ? 0 : 2) : 1;
      if (place.call == Call::none || rank >= best_rank) continue;
      ++guesses;
      thread.registers = walk.registers;
      thread.registers[kProgramCounter] = word - 1;
      thread.registers[kStackPointer] = at + sizeof word;
      Walk next = walk_from(thread);
      const bool has_ended = next.result == 0 && !lacks_stack_;
      // A walk from a word that is none of the stack's ends at the first zero.
      if (has_ended ? !begins_thread(next.addresses.back()) : next.addresses.size() < kConvincing) continue;
      next.lacks_stack = lacks_stack_;
      best = std::move(next);
      best_rank = rank;
    }
    lacks_stack_ = best && best->lacks_stack;
    if (!best) return false;
    best->addresses.insert(best->addresses.begin(), walk.addresses.begin(), walk.addresses.end());
    walk = *std::move(best);
    return true;
  }

  // Whether a table says how to unwind there.
  bool has_table(uint64_t address) {
    const auto [found, is_new] = has_table_.try_emplace(address, false);
    if (is_new) found->second = table_at(address) != nullptr;
    return found->second;
  }

  // Whether the table says that nobody has called what is there: _start, and where a thread begins.
  bool begins_thread(uint64_t address) {
    const Table table = table_at(address);
    Dwarf_Addr first = 0, last = 0;
    bool is_signal = false;
    Dwarf_Op room[3], *rule = nullptr;
    size_t rules = 0;
    const int caller = table == nullptr ? -1 : dwarf_frame_info(table.get(), &first, &last, &is_signal);
    if (caller < 0 || dwarf_frame_register(table.get(), caller, room, &rule, &rules) != 0) return false;
    return rules == 0 && rule == room;  // as libdw says that it is undefined; null: that it is as it was
  }

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  using Table = std::unique_ptr<Dwarf_Frame, Free>;

  // null: nothing says how to unwind there.
  Table table_at(uint64_t address) {
    Dwfl_Module* module = module_at(address);
    if (module == nullptr) return nullptr;
    for (const auto table_of : {dwfl_module_eh_cfi, dwfl_module_dwarf_cfi}) {
      Dwarf_Addr bias = 0;
      Dwarf_CFI* const table = table_of(module, &bias);
      Dwarf_Frame* frame = nullptr;
      if (table != nullptr && dwarf_cfi_addrframe(table, address - bias, &frame) == 0) return Table(frame);
    }
    return nullptr;
  }

  // Where a call may return to: behind a call, in a function with a table.
  struct ReturnPlace {
    Call call = Call::none;
    uint64_t target = 0;  // of a direct one, where a function begins
  };

  ReturnPlace return_place(uint64_t address) {
    const auto [found, is_new] = return_places_.try_emplace(address);
    if (is_new) found->second = look_for_call(address);
    return found->second;
  }

  ReturnPlace look_for_call(uint64_t address) {
    Dwfl_Module* module = module_at(address);
    if (module == nullptr) return {};
    Dwarf_Addr place = address;
    Dwarf_Addr bias = 0;
    Elf_Scn* const section = dwfl_module_address_section(module, &place, &bias);
    GElf_Shdr header;
    if (section == nullptr || gelf_getshdr(section, &header) == nullptr) return {};
    if ((header.sh_flags & SHF_EXECINSTR) == 0 || header.sh_type == SHT_NOBITS) return {};
    const Elf_Data* const code = elf_rawdata(section, nullptr);
    if (code == nullptr || place > code->d_size) return {};
    int32_t distance = 0;
    const auto* const end = static_cast<const uint8_t*>(code->d_buf) + place;
    const Call call = call_before(end, std::min<size_t>(place, 7), distance);
    if (call == Call::none || !has_table(address - 1)) return {};
    const uint64_t target = address + static_cast<uint64_t>(int64_t{distance});
    // Of a stub of the linker's nobody knows where it leads.
    if (call == Call::direct && function_start(target) == target) return {Call::direct, target};
    return {Call::indirect, 0};
  }

  // nullptr for what is in no program or library. libdwfl gives a module some of what is mapped behind it too.
  Dwfl_Module* module_at(uint64_t address) const {
    const Mapping* const mapping = mappings_.find(address);
    const bool is_in_file = mapping != nullptr && mapping->is_code && !mapping->path.empty();
    return is_in_file ? dwfl_addrmodule(dwfl_.get(), address) : nullptr;
  }

  StackFrames frames_at(uint64_t address) {
    Dwfl_Module* module = module_at(address);
    if (module == nullptr) return {from_copies_ ? nobodys_frame(address) : StackFrame{}};
    Dwarf_Addr start = 0;
    const char* path = dwfl_module_info(module, nullptr, &start, nullptr, nullptr, nullptr, nullptr, nullptr);
    const auto [found, is_new] = symbols_.known_.try_emplace({path == nullptr ? "" : path, address - start});
    if (is_new) found->second = look_up(module, address, file_name(path));
    return found->second;
  }

  // Of code that is in no file: the kernel's part of the process, what oneDNN or a compiler has generated.
  StackFrame nobodys_frame(uint64_t address) {
    const auto [found, is_new] = nobodys_.try_emplace(address);
    if (is_new) {
      const Mapping* const mapping = mappings_.find(address);
      if (mapping != nullptr && mapping->is_code) {
        found->second.module = mapping->path.empty() ? "generated code" : file_name(mapping->path.c_str());
      }
    }
    return found->second;
  }

  const char* symbol_at(Dwfl_Module* module, uint64_t address) {
    GElf_Off offset = 0;
    GElf_Sym symbol;
    // It looks at every symbol of the module, each time: good for a few addresses.
    if (!from_copies_) return dwfl_module_addrinfo(module, address, &offset, &symbol, nullptr, nullptr, nullptr);
    return functions_of(module).at(address);
  }

  const FunctionIndex& functions_of(Dwfl_Module* module) {
    auto found = functions_.find(module);
    if (found == functions_.end()) found = functions_.emplace(module, FunctionIndex(module)).first;
    return found->second;
  }

  // Of the function that has this address; 0 where nobody knows.
  uint64_t function_start(uint64_t address) {
    Dwfl_Module* module = module_at(address);
    return module == nullptr ? 0 : functions_of(module).start_of(address);
  }

  StackFrames look_up(Dwfl_Module* module, uint64_t address, const std::string& module_name) {
    StackFrame frame{.module = module_name};
    if (Dwfl_Line* line = dwfl_module_getsrc(module, address); line != nullptr) {
      int number = 0;
      frame.file = file_name(dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr));
      frame.line = number;
    }
    StackFrames frames;
    add_inlined(module, address, frame, frames);
    frame.function = short_name(symbol_at(module, address));
    frames.push_back(std::move(frame));
    return frames;
  }

  // Functions that were inlined at `address`, innermost first; `frame` keeps the place of what they were inlined into.
  static void add_inlined(Dwfl_Module* module, uint64_t address, StackFrame& frame, StackFrames& frames) {
    Dwarf_Addr bias = 0;
    Dwarf_Die* unit = dwfl_module_addrdie(module, address, &bias);
    if (unit == nullptr) return;
    Dwarf_Die* found = nullptr;
    if (dwarf_getscopes(unit, address - bias, &found) <= 0) return;
    const std::unique_ptr<Dwarf_Die, decltype(&std::free)> innermost(found, &std::free);
    // Those are the scopes in which names are looked up; what was inlined into what are the innermost one's parents.
    const int count = dwarf_getscopes_die(innermost.get(), &found);
    if (count <= 0) return;
    const std::unique_ptr<Dwarf_Die, decltype(&std::free)> scopes(found, &std::free);
    for (int i = 0; i < count; ++i) {
      Dwarf_Die* scope = &scopes.get()[i];
      if (dwarf_tag(scope) == DW_TAG_subprogram) return;
      if (dwarf_tag(scope) != DW_TAG_inlined_subroutine) continue;
      frame.function = function_of(scope);
      frame.inlined = true;
      frames.push_back(frame);
      std::tie(frame.file, frame.line) = call_site(unit, scope);
      frame.inlined = false;
    }
  }

  const Snapshot& snapshot_;
  const Mappings mappings_;
  Symbols& symbols_;
  const bool from_copies_;
  std::unique_ptr<Dwfl, End> dwfl_;
  const ThreadSnapshot* thread_ = nullptr;
  bool lacks_stack_ = false;                      // something was wanted that is in no copy
  std::unordered_map<uint64_t, bool> has_table_;  // by address
  std::unordered_map<uint64_t, ReturnPlace> return_places_;
  std::map<Dwfl_Module*, FunctionIndex> functions_;
  std::unordered_map<uint64_t, StackFrame> nobodys_;
};

ProcessStacks Symbols::name(const Snapshot& snapshot) {
  ProcessStacks stacks{.pid = snapshot.pid, .longest_pause_s = snapshot.longest_pause_s};
  Naming naming(snapshot, *this, /*from_copies=*/false);
  for (const ThreadSnapshot& thread : snapshot.threads) stacks.threads.push_back(naming.name(thread));
  return stacks;
}

Symbols::Stacks::Stacks(Symbols& symbols, Snapshot process)
    : process_(std::make_unique<const Snapshot>(std::move(process))),
      naming_(std::make_unique<Naming>(*process_, symbols, /*from_copies=*/true)) {}
Symbols::Stacks::~Stacks() = default;

ThreadStack Symbols::Stacks::name(const ThreadSnapshot& thread) {
  return naming_->name(thread);
}

}  // namespace paceline::stacks
