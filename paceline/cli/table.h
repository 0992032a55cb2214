// Text in columns, as wide as the terminal, and what commands print besides.
#pragma once

#include <string>
#include <vector>

#include "paceline/track/character_width.h"

namespace paceline::cli {

using track::printable;

/// Rows under headings. Every cell is made printable.
class Table {
 public:
  explicit Table(std::vector<std::string> headings) { add(std::move(headings)); }
  void add(std::vector<std::string> row);
  /// Lines with their newlines. Columns are as wide as their widest cell; lines longer than `columns` are cut, 0 for
  /// never.
  std::string text(size_t columns) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;  // of each column
};

/// Columns of the terminal that standard output is; 0 when it is none.
size_t output_columns();

/// A number in six significant digits.
std::string number_text(double value);
/// "3 s ago", "5 min ago", "2 h ago", "4 days ago".
std::string ago_text(double seconds);

}  // namespace paceline::cli
