#include "paceline/core/posix/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

namespace paceline {
namespace {

constexpr size_t kNoteAlignment = 4;

size_t aligned(size_t size) {
  return (size + kNoteAlignment - 1) / kNoteAlignment * kNoteAlignment;
}

std::string hexadecimal(const unsigned char* bytes, size_t size) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::string build_id_in(const unsigned char* notes, size_t size) {
  for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
    const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(notes + at);
    const size_t content = at + sizeof *note + aligned(note->n_namesz);
    if (content + note->n_descsz > size) break;
    if (note->n_type == NT_GNU_BUILD_ID) return hexadecimal(notes + content, note->n_descsz);
    at = content + aligned(note->n_descsz);
  }
  return "";
}

// The first object that is told of is the executable.
int read_first(dl_phdr_info* info, size_t, void* id) {
  for (int i = 0; i < info->dlpi_phnum && static_cast<std::string*>(id)->empty(); ++i) {
    const ElfW(Phdr) & part = info->dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    *static_cast<std::string*>(id) =
        build_id_in(reinterpret_cast<const unsigned char*>(info->dlpi_addr + part.p_vaddr), part.p_memsz);
  }
  return 1;
}

}  // namespace

std::string build_id_of_program() {
  std::string id;
  ::dl_iterate_phdr(read_first, &id);
  return id;
}

}  // namespace paceline
