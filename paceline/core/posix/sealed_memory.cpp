#include "paceline/core/posix/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace paceline {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

arrow::Status write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_status("filling memory that processes share");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return arrow::Status::OK();
}

}  // namespace

arrow::Result<Descriptor> SealedMemory::create(const std::string& name, const std::vector<std::string_view>& parts) {
  Descriptor descriptor(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor) return errno_status("creating memory that processes share");
  size_t size = 0;
  for (const std::string_view part : parts) size += part.size();
  for (const std::string_view part : parts) {
    const arrow::Status written = write_all(descriptor.get(), part);
    if (!written.ok()) return written.WithMessage(written.message(), ", of ", size, " bytes");
  }
  if (::fcntl(descriptor.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0) return errno_status("sealing shared memory");
  return descriptor;
}

arrow::Result<SealedMemory> SealedMemory::open(const Descriptor& descriptor) {
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return arrow::Status::Invalid("shared memory is not sealed");
  struct stat status{};
  if (::fstat(descriptor.get(), &status) != 0) return errno_status("looking at shared memory");
  if (status.st_size == 0) return SealedMemory();
  const auto size = static_cast<size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (data == MAP_FAILED) return errno_status("mapping shared memory");
  return SealedMemory(std::string_view(static_cast<const char*>(data), size));
}

SealedMemory::~SealedMemory() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace paceline
