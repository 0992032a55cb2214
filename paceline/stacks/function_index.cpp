#include <gelf.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "paceline/stacks/function_index_internal.h"

namespace paceline::stacks {

FunctionIndex::FunctionIndex(Dwfl_Module* module) {
  const int count = dwfl_module_getsymtab(module);
  for (int i = 1; i < count; ++i) {
    GElf_Sym symbol;
    GElf_Addr address = 0;
    const char* name = dwfl_module_getsym_info(module, i, &symbol, &address, nullptr, nullptr, nullptr);
    const int type = GELF_ST_TYPE(symbol.st_info);
    const bool is_code = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
    if (name == nullptr || *name == '\0' || symbol.st_shndx == SHN_UNDEF || !is_code) continue;
    const int rank = (GELF_ST_BIND(symbol.st_info) == STB_LOCAL ? 2 : 0) + (type == STT_NOTYPE ? 1 : 0);
    functions_.push_back({address, symbol.st_size, rank, name});
  }
  std::ranges::sort(functions_, {}, [](const Function& one) { return std::tuple(one.start, -one.rank, one.size); });
}

const char* FunctionIndex::at(uint64_t address) const {
  const Function* const found = find(address);
  return found == nullptr ? "" : found->name;
}

uint64_t FunctionIndex::start_of(uint64_t address) const {
  const Function* const found = find(address);
  return found == nullptr ? 0 : found->start;
}

uint64_t FunctionIndex::size_of(uint64_t address) const {
  const Function* const found = find(address);
  return found == nullptr ? 0 : found->size;
}

const FunctionIndex::Function* FunctionIndex::find(uint64_t address) const {
  auto after = std::ranges::upper_bound(functions_, address, {}, &Function::start);
  // A part of a function, or a label in it, may have a symbol of its own.
  for (int turn = 0; turn < 8 && after != functions_.begin(); ++turn) {
    --after;
    if (address < after->start + after->size || (after->size == 0 && turn == 0)) return &*after;
  }
  return nullptr;
}

Call call_before(const uint8_t* end, size_t readable, int32_t& distance) {
  if (readable >= 5 && end[-5] == 0xE8) {
    std::memcpy(&distance, end - 4, sizeof distance);
    return Call::direct;
  }
  for (const ptrdiff_t size : {2, 3, 4, 6, 7}) {
    if (static_cast<size_t>(size) > readable || end[-size] != 0xFF) continue;
    const uint8_t form = end[1 - size];
    if ((form >> 3 & 7) != 2) continue;
    const int mode = form >> 6;
    const bool has_index = mode != 3 && (form & 7) == 4;
    ptrdiff_t wanted = has_index ? 3 : 2;
    if (mode == 1) wanted += 1;
    if (mode == 2 || (mode == 0 && (form & 7) == 5)) wanted += 4;
    if (mode == 0 && has_index && (end[2 - size] & 7) == 5) wanted += 4;
    if (wanted == size) return Call::indirect;
  }
  return Call::none;
}

}  // namespace paceline::stacks
