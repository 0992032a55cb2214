// Bytes that processes share and nobody can change any more, behind a descriptor (a sealed memfd): no name, nothing
// left behind, passed along with a message. However many processes map them, they are in memory once.
//
// Ownership: the object unmaps; descriptors are their holders' own. Thread-safe: nothing changes.
#pragma once

#include <arrow/result.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/core/posix/descriptor.h"

namespace paceline {

class SealedMemory {
 public:
  /// New memory that holds `parts`, one after another. `name` shows in /proc only. An error says how much was wanted.
  static arrow::Result<Descriptor> create(const std::string& name, const std::vector<std::string_view>& parts);
  /// Maps all of it. Invalid unless it is sealed: whoever sent it could still take it away.
  static arrow::Result<SealedMemory> open(const Descriptor& descriptor);

  SealedMemory() = default;
  SealedMemory(SealedMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  SealedMemory& operator=(SealedMemory&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SealedMemory();

  std::string_view bytes() const { return bytes_; }

 private:
  explicit SealedMemory(std::string_view bytes) : bytes_(bytes) {}

  std::string_view bytes_;
};

}  // namespace paceline
