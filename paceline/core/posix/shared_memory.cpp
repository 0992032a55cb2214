#include "paceline/core/posix/shared_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "paceline/core/posix/descriptor_limit.h"

namespace paceline {

SharedMemory::SharedMemory(Descriptor descriptor, std::byte* data, size_t size)
    : descriptor_(std::move(descriptor)), data_(data), size_(size) {}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this != &other) {
    this->~SharedMemory();
    new (this) SharedMemory(std::move(other));
  }
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

arrow::Result<SharedMemory> SharedMemory::create(const std::string& name, size_t bytes) {
  Descriptor descriptor(::memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!descriptor && is_lack_of_descriptors(errno)) {
    ARROW_RETURN_NOT_OK(make_room_for_descriptor(errno));
    descriptor = Descriptor(::memfd_create(name.c_str(), MFD_CLOEXEC));
  }
  if (!descriptor) return errno_status("creating shared memory");
  if (::ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0) return errno_status("sizing shared memory");
  return open(std::move(descriptor), bytes);
}

arrow::Result<SharedMemory> SharedMemory::open(Descriptor descriptor, size_t bytes) {
  struct stat status{};
  if (::fstat(descriptor.get(), &status) != 0) return errno_status("looking at shared memory");
  if (bytes == 0 || static_cast<size_t>(status.st_size) < bytes) {
    return arrow::Status::Invalid("shared memory is too small: wanted ", bytes, " bytes, got ", status.st_size);
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (data == MAP_FAILED) return errno_status("mapping shared memory");
  return SharedMemory(std::move(descriptor), static_cast<std::byte*>(data), bytes);
}

}  // namespace paceline
