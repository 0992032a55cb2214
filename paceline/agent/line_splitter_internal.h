// LineSplitter: a program's bytes as the lines that are left of them when its progress bars are done.
//
// Bars draw over their line ("\r") instead of ending it. Bars within bars (tqdm's) stand in rows below each other: from
// the first the cursor goes down to another one ("\n"), draws it ("\r…") and comes back ("\x1b[A"). So a "\n" at the
// end of a bar ends its line only if the cursor stays below, which what comes next says; until then the line is held.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/rpc/messages.h"

namespace paceline::agent {

using Lines = rpc::Strings;

/// Cuts bytes into lines without their ends. A line beyond kMaxBytes is cut there. Bytes stay as they are, whatever
/// their encoding; but of a line that was drawn over only what was drawn last is left, nothing when that was blanks,
/// and nothing moves the cursor up.
class LineSplitter {
 public:
  static constexpr size_t kMaxBytes = size_t{64} << 10;
  /// Of bars that stand below each other: tqdm shows 20.
  static constexpr size_t kMaxRows = 24;
  static constexpr size_t kMaxRowBytes = size_t{4} << 10;

  /// The lines that `bytes` completes.
  Lines feed(std::string_view bytes);
  /// The lines without an end that are left, if any.
  Lines finish();
  /// What the rows show that draw over themselves, with "\n" between them; "" when there are none.
  std::string bar() const;
  /// Whether lines are complete unless the cursor comes back to them.
  bool is_held() const { return cursor_ == Cursor::arrived || cursor_ == Cursor::drawing; }
  /// Those lines: the cursor does not come back. None when none is held.
  Lines release();

 private:
  struct Row {
    std::string rest;      // since the last "\r"
    std::string drawn;     // before that, without what was drawn over
    bool is_bar = false;   // it has been drawn over
    bool is_free = false;  // blanks were drawn over the bar: what comes now may be no bar

    std::string line() const;
    bool is_drawn_bar() const { return is_bar && !is_free && !rest.empty(); }
  };
  enum class Cursor { home, arrived, drawing, risen };

  void write(std::string_view text, Lines& lines);
  void begin_row_again(Lines& lines);
  void end_row(Lines& lines);
  void go_up(size_t rows);
  /// The rows above the cursor are done.
  void end_above(Lines& lines);
  bool shows_below() const;

  std::vector<Row> rows_ = {Row()};
  size_t row_ = 0;  // the cursor's
  // In the first row; has come to one below, and nothing since; draws there; has come up.
  Cursor cursor_ = Cursor::home;
  bool has_risen_ = false;  // there are bars within bars: an empty row may be left for a bar that is drawn later
  std::string escape_;      // the beginning of a sequence
};

}  // namespace paceline::agent
