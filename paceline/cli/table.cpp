#include "paceline/cli/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace paceline::cli {
namespace {

// Bytes of the UTF-8 sequence at the front of `text`; 0: there is none.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80                    ? 1
                        : first >= 0xc2 && first < 0xe0 ? 2
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xf0 && first < 0xf5 ? 4
                                                        : 0;
  if (length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

// Of printable text: one column for each letter.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string cut(const std::string& line, size_t columns) {
  if (columns == 0 || width_of(line) <= columns) return line;
  size_t end = 0;
  for (size_t letters = 0; letters < columns; ++letters)
    end += std::max<size_t>(1, sequence_length(std::string_view(line).substr(end)));
  return line.substr(0, end);
}

}  // namespace

std::string printable(std::string_view text) {
  const bool plain = std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
  if (plain) return std::string(text);  // nearly every cell of a long table
  std::string safe;
  while (!text.empty()) {
    const size_t length = sequence_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    // U+0080 to U+009F are control characters too.
    const bool control = (length == 1 && (first < 0x20 || first == 0x7f)) ||
                         (length == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0);
    if (length > 0 && !control) {
      safe += text.substr(0, length);
    } else if (first == '\n' || first == '\t') {
      safe += first == '\n' ? "\\n" : "\\t";
    } else {
      for (size_t i = 0; i < std::max<size_t>(1, length); ++i) {
        std::array<char, 8> escaped{};
        std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned char>(text[i]));
        safe += escaped.data();
      }
    }
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return safe;
}

void Table::add(std::vector<std::string> row) {
  widths_.resize(std::max(widths_.size(), row.size()));
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = printable(row[i]);
    widths_[i] = std::max(widths_[i], width_of(row[i]));
  }
  rows_.push_back(std::move(row));
}

std::string Table::text(size_t columns) const {
  std::string text;
  std::string line;
  for (const auto& row : rows_) {
    line.clear();
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths_[i] - width_of(row[i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += cut(line, columns);
    text += '\n';
  }
  return text;
}

size_t output_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

std::string ago_text(double seconds) {
  const auto count = [](double amount, const char* unit) {
    return std::to_string(static_cast<int64_t>(amount)) + " " + unit + " ago";
  };
  if (seconds < 60) return count(std::max(0.0, seconds), "s");
  if (seconds < 3600) return count(seconds / 60, "min");
  if (seconds < 48 * 3600) return count(seconds / 3600, "h");
  return count(seconds / 86400, "days");
}

}  // namespace paceline::cli
