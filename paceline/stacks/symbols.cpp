#include "paceline/stacks/symbols.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <sys/uio.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "paceline/core/type_name.h"
#include "paceline/stacks/mapping_internal.h"

namespace paceline::stacks {
namespace {

constexpr size_t kMostFrames = 200;
constexpr size_t kLongestName = 200;

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
  Naming(const Snapshot& snapshot, Symbols& symbols) : snapshot_(snapshot), symbols_(symbols) {
    dwfl_.reset(dwfl_begin(&kModuleCallbacks));
    const std::unique_ptr<std::FILE, decltype(&std::fclose)> maps(
        ::fmemopen(const_cast<char*>(snapshot.maps.data()), snapshot.maps.size(), "r"), &std::fclose);
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

  static int take_frame(Dwfl_Frame* frame, void* into) {
    auto& addresses = *static_cast<std::vector<uint64_t>*>(into);
    Dwarf_Addr address = 0;
    bool interrupted_here = false;
    if (!dwfl_frame_pc(frame, &address, &interrupted_here)) return DWARF_CB_ABORT;
    addresses.push_back(interrupted_here ? address : address - 1);  // the call, not what follows it
    return addresses.size() < kMostFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
  }

  std::vector<uint64_t> unwind(const ThreadSnapshot& thread, std::string& problem) {
    std::vector<uint64_t> addresses;
    ThreadSnapshot caller = thread;
    thread_ = &caller;
    // After a call through a bad pointer the counter is nowhere; the call has left the caller's address on the stack.
    Dwarf_Word return_address = 0;
    const bool nowhere = !find_mapping(snapshot_.maps, thread.registers[kProgramCounter]);
    if (nowhere && read_memory(nullptr, thread.registers[kStackPointer], &return_address, this)) {
      addresses.push_back(thread.registers[kProgramCounter]);
      caller.registers[kProgramCounter] = return_address;
      caller.registers[kStackPointer] += sizeof return_address;
    }
    const int result = dwfl_getthread_frames(dwfl_.get(), thread.tid, take_frame, &addresses);
    if (addresses.size() == kMostFrames) {
      problem = "more frames follow";
    } else if (result != 0 && addresses.size() < 2) {
      problem = std::string("unwound no further: ") + dwfl_errmsg(-1);
    }
    return addresses;
  }

  StackFrames frames_at(uint64_t address) {
    Dwfl_Module* module = dwfl_addrmodule(dwfl_.get(), address);
    if (module == nullptr) return {StackFrame{}};
    Dwarf_Addr start = 0;
    const char* path = dwfl_module_info(module, nullptr, &start, nullptr, nullptr, nullptr, nullptr, nullptr);
    const auto [found, is_new] = symbols_.known_.try_emplace({path == nullptr ? "" : path, address - start});
    if (is_new) found->second = look_up(module, address, file_name(path));
    return found->second;
  }

  static StackFrames look_up(Dwfl_Module* module, uint64_t address, const std::string& module_name) {
    StackFrame frame{.module = module_name};
    if (Dwfl_Line* line = dwfl_module_getsrc(module, address); line != nullptr) {
      int number = 0;
      frame.file = file_name(dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr));
      frame.line = number;
    }
    StackFrames frames;
    add_inlined(module, address, frame, frames);
    GElf_Off offset = 0;
    GElf_Sym symbol;
    frame.function = short_name(dwfl_module_addrinfo(module, address, &offset, &symbol, nullptr, nullptr, nullptr));
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
  Symbols& symbols_;
  std::unique_ptr<Dwfl, End> dwfl_;
  const ThreadSnapshot* thread_ = nullptr;
};

ProcessStacks Symbols::name(const Snapshot& snapshot) {
  ProcessStacks stacks{.pid = snapshot.pid, .longest_pause_s = snapshot.longest_pause_s};
  Naming naming(snapshot, *this);
  for (const ThreadSnapshot& thread : snapshot.threads) stacks.threads.push_back(naming.name(thread));
  return stacks;
}

}  // namespace paceline::stacks
