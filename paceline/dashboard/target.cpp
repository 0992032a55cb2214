#include "paceline/dashboard/target.h"

#include <charconv>

namespace paceline::dashboard {
namespace {

// 0 to 15; -1 for what is no hexadecimal digit.
int digit(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return -1;
}

arrow::Result<std::string> decoded(std::string_view text, bool plus_is_space) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      bytes += ' ';
    } else if (text[i] == '%') {
      const int high = i + 2 < text.size() ? digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return arrow::Status::Invalid("the address has an incomplete %-escape");
      bytes += static_cast<char>(16 * high + low);
      i += 2;
    } else {
      bytes += text[i];
    }
  }
  if (bytes.find('\0') != std::string::npos) return arrow::Status::Invalid("the address has a NUL");
  return bytes;
}

// Calls `take` with each part between separators.
template <class Take>
arrow::Status split(std::string_view text, char separator, const Take& take) {
  while (true) {
    const size_t end = text.find(separator);
    ARROW_RETURN_NOT_OK(take(text.substr(0, end)));
    if (end == std::string_view::npos) return arrow::Status::OK();
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string Query::text(std::string_view name) const {
  std::string found;
  for (const auto& [one, value] : values_) {
    if (one == name) found = value;
  }
  return found;
}

arrow::Result<int64_t> Query::number(std::string_view name, int64_t otherwise, int64_t least, int64_t most) const {
  const std::string value = text(name);
  if (value.empty()) return otherwise;
  int64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < least || number > most) {
    return arrow::Status::Invalid(std::string(name), " is \"", value, "\"; wanted a whole number from ", least, " to ",
                                  most);
  }
  return number;
}

arrow::Result<Target> parse_target(std::string_view text) {
  if (!text.starts_with('/')) return arrow::Status::Invalid("the address does not begin with /");
  Target target;
  const size_t mark = text.find('?');
  std::string_view path = text.substr(1, mark == std::string_view::npos ? mark : mark - 1);
  if (path.ends_with('/')) path.remove_suffix(1);
  if (!path.empty()) {
    ARROW_RETURN_NOT_OK(split(path, '/', [&target](std::string_view part) {
      ARROW_ASSIGN_OR_RAISE(std::string segment, decoded(part, false));
      if (segment.empty() || segment == "." || segment == ".." || segment.find('\\') != std::string::npos) {
        return arrow::Status::Invalid("the address has a part that leads elsewhere");
      }
      target.path.push_back(std::move(segment));
      return arrow::Status::OK();
    }));
  }
  if (mark == std::string_view::npos || mark + 1 == text.size()) return target;
  ARROW_RETURN_NOT_OK(split(text.substr(mark + 1), '&', [&target](std::string_view part) {
    if (part.empty()) return arrow::Status::OK();
    const size_t equals = part.find('=');
    ARROW_ASSIGN_OR_RAISE(std::string name, decoded(part.substr(0, equals), true));
    std::string value;
    if (equals != std::string_view::npos) {
      ARROW_ASSIGN_OR_RAISE(value, decoded(part.substr(equals + 1), true));
    }
    target.query.add(std::move(name), std::move(value));
    return arrow::Status::OK();
  }));
  return target;
}

std::string escaped(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string address;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                          (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' || letter == '~';
    if (is_plain) {
      address += letter;
    } else {
      address += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return address;
}

}  // namespace paceline::dashboard
