#include "paceline/stacks/symbols.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "paceline/core/type_name.h"
#include "paceline/stacks/modules_internal.h"
#include "paceline/stacks/unwinder_internal.h"

namespace paceline::stacks {
namespace {

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

}  // namespace

// One snapshot with the modules of its process.
class Naming {
 public:
  /// `from_copies`: as Unwinder has it.
  Naming(const Snapshot& snapshot, Symbols& symbols, bool from_copies)
      : modules_(snapshot.maps),
        unwinder_(modules_, snapshot.pid, from_copies),
        symbols_(symbols),
        from_copies_(from_copies) {}

  ThreadStack name(const ThreadSnapshot& thread) {
    ThreadStack result{
        .tid = thread.tid, .name = thread.name, .state = thread.state, .frames = {}, .problem = thread.problem};
    std::vector<uint64_t> addresses = thread.addresses;
    if (addresses.empty() && thread.problem.empty()) addresses = unwinder_.unwind(thread, result.problem);
    for (const uint64_t address : addresses) {
      for (StackFrame& frame : frames_at(address)) result.frames.push_back(std::move(frame));
    }
    return result;
  }

 private:
  StackFrames frames_at(uint64_t address) {
    Dwfl_Module* module = modules_.at(address);
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
      const Mapping* const mapping = modules_.mapping(address);
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
    return modules_.functions_of(module).at(address);
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

  Modules modules_;
  Unwinder unwinder_;
  Symbols& symbols_;
  const bool from_copies_;
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
