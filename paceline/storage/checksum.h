// XXH3-128 of bytes, of a file, and of a file while it is copied. Written as 32 lower-case hexadecimal digits.
#pragma once

#include <arrow/result.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace paceline::storage {

/// Incremental XXH3-128. Not thread-safe.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  void update(std::span<const std::byte> bytes);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string checksum_of(std::span<const std::byte> bytes);

struct FileSum {
  int64_t size = 0;
  std::string checksum;
};
/// Size and checksum of the file, read in portions.
arrow::Result<FileSum> checksum_of_file(const std::string& path);
/// Copies a file, reflinked or in the kernel where possible, syncs the copy, and gives its size and checksum.
arrow::Result<FileSum> copy_durably(const std::string& from, const std::string& to);

}  // namespace paceline::storage
