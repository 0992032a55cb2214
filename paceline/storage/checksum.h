// XXH3-128 of bytes and of a file. Written as 32 lower-case hexadecimal digits, the canonical (big-endian) form that
// `xxhsum -H2` prints.
#pragma once

#include <arrow/result.h>

#include <cstddef>
#include <memory>
#include <span>
#include <stop_token>
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

  bool operator==(const FileSum&) const = default;
};

/// Portions in which files are read, summed and written: small enough to stay in a core's cache between these.
inline constexpr size_t kPortion = size_t{1} << 20;

/// Size and checksum of the file, read in portions. Cancelled between two when `given_up` says so.
arrow::Result<FileSum> checksum_of_file(const std::string& path, const std::stop_token& given_up = {});

}  // namespace paceline::storage
