#include "paceline/storage/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <vector>

#include "paceline/storage/local/durable.h"

namespace paceline::storage {
namespace {

std::string to_hex(const XXH128_hash_t& hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * sizeof canonical.digest);
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

struct Checksum::State {
  XXH3_state_t hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->hash);
}
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(&state_->hash, bytes.data(), bytes.size());
}

std::string Checksum::hex() const {
  return to_hex(XXH3_128bits_digest(&state_->hash));
}

std::string checksum_of(std::span<const std::byte> bytes) {
  return to_hex(XXH3_128bits(bytes.data(), bytes.size()));
}

arrow::Result<FileSum> checksum_of_file(const std::string& path, const std::stop_token& given_up) {
  ARROW_ASSIGN_OR_RAISE(const Descriptor file, open_for_reading(path));
  std::vector<std::byte> buffer(kPortion);
  Checksum checksum;
  int64_t size = 0;
  for (;;) {
    if (given_up.stop_requested()) return arrow::Status::Cancelled("the rest of ", path, " is not read");
    ARROW_ASSIGN_OR_RAISE(const size_t count, read_at(file, path, size, buffer));
    if (count == 0) return FileSum{.size = size, .checksum = checksum.hex()};
    checksum.update({buffer.data(), count});
    size += static_cast<int64_t>(count);
  }
}

}  // namespace paceline::storage
