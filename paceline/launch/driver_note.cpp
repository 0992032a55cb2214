#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <vector>

#include "paceline/core/posix/descriptor.h"
#include "paceline/launch/program.h"

namespace paceline::launch {
namespace {

constexpr size_t kMostNoteBytes = size_t{1} << 20;
constexpr std::string_view kOwner("Paceline\0", 9);  // as train/trainer.cpp writes it

template <class T>
bool read_at(const Descriptor& file, T* target, size_t bytes, uint64_t offset) {
  return ::pread(file.get(), target, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

size_t aligned(size_t size) {
  return (size + 3) & ~size_t{3};
}

bool has_owner(const std::vector<char>& notes) {
  for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr header;
    std::memcpy(&header, notes.data() + at, sizeof header);
    at += sizeof header;
    if (header.n_namesz > notes.size() - at) return false;
    if (std::string_view(notes.data() + at, header.n_namesz) == kOwner) return true;
    at += aligned(header.n_namesz) + aligned(header.n_descsz);
  }
  return false;
}

}  // namespace

bool is_paceline_driver(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Elf64_Ehdr elf;
  if (!file || !read_at(file, &elf, sizeof elf, 0) || std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_phentsize != sizeof(Elf64_Phdr)) return false;
  for (size_t i = 0; i < elf.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!read_at(file, &segment, sizeof segment, elf.e_phoff + i * sizeof segment)) return false;
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMostNoteBytes) continue;
    std::vector<char> notes(segment.p_filesz);
    if (read_at(file, notes.data(), notes.size(), segment.p_offset) && has_owner(notes)) return true;
  }
  return false;
}

}  // namespace paceline::launch
