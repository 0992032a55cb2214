#include <gelf.h>

#include <algorithm>
#include <cstring>

#include "paceline/stacks/modules_internal.h"

namespace paceline::stacks {
namespace {

// Who jumps to a kernel instead of calling it is short.
constexpr uint64_t kMostCodeOfJump = 64 << 10;

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

Modules::Modules(const std::string& maps) : mappings_(maps), dwfl_(dwfl_begin(&kModuleCallbacks)) {
  if (dwfl_ == nullptr) return;
  dwfl_report_begin(dwfl_.get());
  for (const Image& image : images_of(mappings_)) {
    if (dwfl_report_module(dwfl_.get(), image.path.c_str(), image.start, image.end) != nullptr) {
      images_.emplace(image.start, image.end);
    }
  }
  dwfl_report_end(dwfl_.get(), nullptr, nullptr);
}

Dwfl_Module* Modules::at(uint64_t address) const {
  const auto after = images_.upper_bound(address);
  if (after == images_.begin() || address >= std::prev(after)->second) return nullptr;
  const Mapping* const mapping = mappings_.find(address);
  return mapping != nullptr && mapping->is_code ? dwfl_addrmodule(dwfl_.get(), address) : nullptr;
}

bool Modules::has_table(uint64_t address) {
  const auto [found, is_new] = has_table_.try_emplace(address, false);
  if (is_new) found->second = table_at(address) != nullptr;
  return found->second;
}

bool Modules::begins_thread(uint64_t address) const {
  const Table table = table_at(address);
  Dwarf_Addr first = 0, last = 0;
  bool is_signal = false;
  Dwarf_Op room[3], *rule = nullptr;
  size_t rules = 0;
  const int caller = table == nullptr ? -1 : dwarf_frame_info(table.get(), &first, &last, &is_signal);
  if (caller < 0 || dwarf_frame_register(table.get(), caller, room, &rule, &rules) != 0) return false;
  return rules == 0 && rule == room;  // as libdw says that it is undefined; null: that it is as it was
}

// null: nothing says how to unwind there.
Modules::Table Modules::table_at(uint64_t address) const {
  Dwfl_Module* module = at(address);
  if (module == nullptr) return nullptr;
  for (const auto table_of : {dwfl_module_eh_cfi, dwfl_module_dwarf_cfi}) {
    Dwarf_Addr bias = 0;
    Dwarf_CFI* const table = table_of(module, &bias);
    Dwarf_Frame* frame = nullptr;
    if (table != nullptr && dwarf_cfi_addrframe(table, address - bias, &frame) == 0) return Table(frame);
  }
  return nullptr;
}

Modules::Code Modules::code_at(uint64_t address) const {
  Dwfl_Module* module = at(address);
  if (module == nullptr) return {};
  Dwarf_Addr place = address;
  Dwarf_Addr bias = 0;
  Elf_Scn* const section = dwfl_module_address_section(module, &place, &bias);
  GElf_Shdr header;
  if (section == nullptr || gelf_getshdr(section, &header) == nullptr) return {};
  if ((header.sh_flags & SHF_EXECINSTR) == 0 || header.sh_type == SHT_NOBITS) return {};
  const Elf_Data* const code = elf_rawdata(section, nullptr);
  if (code == nullptr || place > code->d_size) return {};
  return {.at = static_cast<const uint8_t*>(code->d_buf) + place, .before = place, .behind = code->d_size - place};
}

Modules::ReturnPlace Modules::return_place(uint64_t address) {
  const auto [found, is_new] = return_places_.try_emplace(address);
  if (is_new) found->second = look_for_call(address);
  return found->second;
}

Modules::ReturnPlace Modules::look_for_call(uint64_t address) {
  const Code code = code_at(address);
  if (code.at == nullptr) return {};
  int32_t distance = 0;
  const Call call = call_before(code.at, std::min<size_t>(code.before, 7), distance);
  if (call == Call::none || !has_table(address - 1)) return {};
  const uint64_t target = address + static_cast<uint64_t>(int64_t{distance});
  // Of a stub of the linker's nobody knows where it leads.
  if (call == Call::direct && function_start(target) == target) return {Call::direct, target};
  return {Call::indirect, 0};
}

const FunctionIndex& Modules::functions_of(Dwfl_Module* module) {
  auto found = functions_.find(module);
  if (found == functions_.end()) found = functions_.emplace(module, FunctionIndex(module)).first;
  return found->second;
}

uint64_t Modules::function_start(uint64_t address) {
  Dwfl_Module* module = at(address);
  return module == nullptr ? 0 : functions_of(module).start_of(address);
}

bool Modules::jumps_to(uint64_t function, uint64_t other) {
  const auto [found, is_new] = jumps_.try_emplace({function, other}, false);
  if (is_new) found->second = look_for_jump(function, other);
  return found->second;
}

bool Modules::look_for_jump(uint64_t function, uint64_t other) {
  Dwfl_Module* module = at(function);
  const Code code = code_at(function);
  if (code.at == nullptr) return false;
  const uint64_t size = std::min({functions_of(module).size_of(function), kMostCodeOfJump, uint64_t{code.behind}});
  const auto leads_there = [&](uint64_t next, int64_t distance) {
    return function + next + static_cast<uint64_t>(distance) == other;
  };
  // Bytes in the middle of an instruction may look like a jump, but hardly like one to there.
  for (uint64_t i = 0; i < size; ++i) {
    int32_t distance = 0;
    if (code.at[i] == 0xE9 && i + 5 <= size) {
      std::memcpy(&distance, code.at + i + 1, sizeof distance);
      if (leads_there(i + 5, distance)) return true;
    }
    if (code.at[i] == 0xEB && i + 2 <= size && leads_there(i + 2, static_cast<int8_t>(code.at[i + 1]))) return true;
  }
  return false;
}

}  // namespace paceline::stacks
