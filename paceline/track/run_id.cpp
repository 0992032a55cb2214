#include "paceline/track/run_id.h"

#include <span>

#include "paceline/storage/checksum.h"

namespace paceline::track {

std::string run_id(std::string_view path) {
  return storage::checksum_of(std::as_bytes(std::span(path)));
}

bool is_run_id(std::string_view text) {
  constexpr size_t kDigits = 32;
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace paceline::track
