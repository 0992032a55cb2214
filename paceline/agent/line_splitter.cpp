#include "paceline/agent/line_splitter_internal.h"

#include <algorithm>
#include <utility>

namespace paceline::agent {
namespace {

constexpr size_t kLongestMove = 8;  // "\x1b[9999A" and less

// Nothing that can be seen: blanks, and sequences that erase ("\x1b[K") or move.
bool is_blank(std::string_view text) {
  while (!text.empty()) {
    size_t end = 1;
    if (text.starts_with("\x1b[")) {
      end = text.find_first_not_of("0123456789;?", 2);
      if (end == std::string_view::npos) return true;
      if (text[end] == 'm') return false;  // colours belong to what follows
      ++end;
    } else if (text.front() != ' ') {
      return false;
    }
    text.remove_prefix(end);
  }
  return true;
}

// What "\x1b…" begins with: so many bytes, which move the cursor up by so many rows; `size` 0: not all of it is there.
struct Escape {
  size_t size = 1;
  size_t rows_up = 0;
};

Escape read_escape(std::string_view bytes) {
  if (bytes.size() > 1 && bytes[1] != '[') return {};
  const size_t end = bytes.size() < 2 ? std::string_view::npos : bytes.find_first_not_of("0123456789", 2);
  if (end == std::string_view::npos) return {.size = bytes.size() < kLongestMove ? size_t{0} : 1};
  if (bytes[end] != 'A' || end >= kLongestMove) return {.size = end};
  size_t rows = 0;
  for (const char digit : bytes.substr(2, end - 2)) rows = 10 * rows + static_cast<size_t>(digit - '0');
  return {.size = end + 1, .rows_up = std::max<size_t>(rows, 1)};
}

}  // namespace

Lines LineSplitter::feed(std::string_view bytes) {
  Lines lines;
  const std::string joined = escape_.empty() ? "" : std::exchange(escape_, {}).append(bytes);
  if (!joined.empty()) bytes = joined;
  while (!bytes.empty()) {
    size_t size = 1;
    if (bytes.front() == '\n') {
      end_row(lines);
    } else if (bytes.front() == '\r') {
      begin_row_again(lines);
    } else if (bytes.front() == '\x1b') {
      const Escape escape = read_escape(bytes);
      if (escape.size == 0) {
        escape_ = bytes;
        break;
      }
      size = escape.size;
      if (escape.rows_up > 0) {
        go_up(escape.rows_up);
      } else {
        write(bytes.substr(0, size), lines);
      }
    } else {
      size = std::min(bytes.find_first_of("\r\n\x1b"), bytes.size());
      write(bytes.substr(0, size), lines);
    }
    bytes.remove_prefix(size);
  }
  return lines;
}

Lines LineSplitter::finish() {
  Lines lines;
  if (!escape_.empty()) write(std::exchange(escape_, {}), lines);
  if (cursor_ == Cursor::arrived) {
    for (std::string& line : release()) lines.push_back(std::move(line));
  }
  for (const Row& row : rows_) {
    if (std::string line = row.line(); !line.empty()) lines.push_back(std::move(line));
  }
  *this = {};
  return lines;
}

Lines LineSplitter::release() {
  Lines lines;
  if (!is_held()) return lines;
  if (cursor_ == Cursor::drawing) {
    end_above(lines);
    return lines;
  }
  // What it has passed or not reached are copies of bars that went up as they ended.
  for (size_t at = 1; at < row_; ++at) {
    if (rows_[at].is_bar) rows_[at] = {.is_bar = true};
  }
  rows_.resize(row_);
  rows_.emplace_back();
  end_above(lines);
  return lines;
}

std::string LineSplitter::bar() const {
  if (rows_.size() == 1 && !rows_[0].is_bar) return "";
  std::string text;
  for (const Row& row : rows_) {
    if (const std::string line = row.line(); !line.empty()) text.append(text.empty() ? "" : "\n").append(line);
  }
  return text;
}

void LineSplitter::write(std::string_view text, Lines& lines) {
  if (cursor_ == Cursor::arrived) {
    for (std::string& line : release()) lines.push_back(std::move(line));
  }
  if (cursor_ == Cursor::risen) {
    end_above(lines);
    if (!rows_[0].line().empty()) rows_[0].rest += ' ';  // on a terminal it stands further right
  }
  while (!text.empty()) {
    std::string& rest = rows_[row_].rest;
    const size_t most = std::max(rest.size(), rows_.size() == 1 ? kMaxBytes : kMaxRowBytes);
    const size_t fits = std::min(text.size(), most - rest.size());
    rest.append(text.substr(0, fits));
    text.remove_prefix(fits);
    if (text.empty()) return;
    end_above(lines);
    lines.push_back(rows_[0].line());
    rows_.assign(1, {});
  }
}

void LineSplitter::begin_row_again(Lines& lines) {
  if (cursor_ == Cursor::risen) end_above(lines);
  // The second time that it draws there: it has not come for a visit.
  if (cursor_ == Cursor::drawing && !is_blank(rows_[row_].rest)) end_above(lines);
  Row& row = rows_[row_];
  row.is_free = row.is_bar && cursor_ != Cursor::arrived && !row.rest.empty() && is_blank(row.rest);
  if (cursor_ == Cursor::arrived) cursor_ = Cursor::drawing;
  if (!row.rest.empty()) row.drawn = std::exchange(row.rest, {});
  row.is_bar = true;
}

void LineSplitter::end_row(Lines& lines) {
  if (cursor_ == Cursor::risen || cursor_ == Cursor::drawing) end_above(lines);
  const bool is_left_free = has_risen_ && rows_[0].line().empty();
  if (cursor_ == Cursor::home && !rows_[0].is_drawn_bar() && !shows_below() && !is_left_free) {
    lines.push_back(rows_[0].line());
    rows_.assign(1, {});
    return;
  }
  cursor_ = Cursor::arrived;
  if (++row_ < rows_.size()) return;
  rows_.emplace_back();
  if (rows_.size() <= kMaxRows) return;
  lines.push_back(rows_[0].line());
  rows_.erase(rows_.begin());
  --row_;
}

void LineSplitter::go_up(size_t rows) {
  const size_t missing = std::min(rows - std::min(rows, row_), kMaxRows - rows_.size());
  rows_.insert(rows_.begin(), missing, Row{.is_bar = true});
  row_ = row_ + missing - std::min(rows, row_ + missing);
  cursor_ = Cursor::risen;
  has_risen_ = true;
}

void LineSplitter::end_above(Lines& lines) {
  for (size_t at = 0; at < row_; ++at) {
    std::string line = rows_[at].line();
    if (!line.empty() || !rows_[at].is_bar) lines.push_back(std::move(line));
  }
  rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(row_));
  row_ = 0;
  cursor_ = Cursor::home;
}

bool LineSplitter::shows_below() const {
  return std::any_of(rows_.begin() + 1, rows_.end(), [](const Row& row) { return !row.line().empty(); });
}

std::string LineSplitter::Row::line() const {
  if (!is_bar) return rest;
  const std::string& shown = rest.empty() ? drawn : rest;
  if (is_blank(shown)) return "";
  return shown.substr(0, shown.find_last_not_of(' ') + 1);  // bars write blanks over what was longer
}

}  // namespace paceline::agent
