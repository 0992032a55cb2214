// Anonymous shared memory behind a descriptor (memfd): no name, nothing left behind, passed along with a message.
//
// Ownership: the object unmaps and closes. The mapping starts zeroed. Users synchronise concurrent access themselves.
#pragma once

#include <arrow/result.h>

#include <cstddef>
#include <span>

#include "paceline/core/posix/descriptor.h"

namespace paceline {

class SharedMemory {
 public:
  /// New memory of `bytes` (> 0), mapped for reading and writing. `name` shows in /proc only.
  static arrow::Result<SharedMemory> create(const std::string& name, size_t bytes);
  /// Maps memory that another process created; `bytes` must not exceed its size.
  static arrow::Result<SharedMemory> open(Descriptor descriptor, size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::span<std::byte> bytes() const { return {data_, size_}; }
  const Descriptor& descriptor() const { return descriptor_; }

 private:
  SharedMemory(Descriptor descriptor, std::byte* data, size_t size);

  Descriptor descriptor_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace paceline
