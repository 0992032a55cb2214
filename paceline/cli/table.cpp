#include "paceline/cli/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace paceline::cli {

void Table::add(std::vector<std::string> row) {
  widths_.resize(std::max(widths_.size(), row.size()));
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = printable(row[i]);
    widths_[i] = std::max(widths_[i], track::columns_of(row[i]));
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
      if (i + 1 < row.size()) line.append(widths_[i] - track::columns_of(row[i]) + 2, ' ');
    }
    if (columns > 0) line.resize(track::bytes_that_fit(line, columns));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line;
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
