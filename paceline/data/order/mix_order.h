// Which row of a mixture comes from which source: exact to the row, at every position.
//
// Pure functions of weights, counts and position. After any number of rows, each source has given its weight's part of
// them, to less than one row, and the next source follows from the position alone: nothing is drawn, so that whoever
// goes on from a position goes on exactly. The order of picks repeats after some rows and is made by Tijdeman's
// algorithm ("The chairman assignment problem", 1980). What row of its own a source gives is its own affair.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace paceline::data {

/// Where a mixture ends.
enum class MixStop {
  first,  ///< where a source that has given all its rows would be next
  all,    ///< when all rows of all sources are there, each once; from where one ends on, the others share its part
  repeat  ///< when each source has given all its rows; those that have, until then begin again
};

/// The picks of one epoch.
///
///     const MixOrder order({7, 3}, {a->rows(), b->rows()}, MixStop::first);
///     order.before(1000);  // {700, 300}
class MixOrder {
 public:
  /// `weights`: above 0, one for each source; they are divided by their sum. Ratios of whole numbers whose sum is at
  /// most 2^20 are exact; others are rounded to that. `rows`: of each source.
  MixOrder(const std::vector<double>& weights, const std::vector<int64_t>& rows, MixStop stop);

  /// Rows of the mixture.
  int64_t rows() const { return rows_; }
  /// Rows of each source among those before `position`, 0 ≤ position ≤ rows(). With MixStop::repeat that may be more
  /// than there are: row n of a source of k rows is row n mod k.
  std::vector<int64_t> before(int64_t position) const;
  /// The source of each of the rows `first` … `first + rows - 1`.
  std::vector<int32_t> sources(int64_t first, int64_t rows) const;
  /// Of weights, counts and end.
  uint64_t fingerprint() const;

 private:
  // Picks that repeat.
  struct Period {
    std::vector<int32_t> picks;
    std::vector<std::vector<int64_t>> places;  // of each source's picks
    int64_t count(size_t source, int64_t before) const;
    int64_t place(size_t source, int64_t pick) const;
  };
  // Rows that are picked from the same sources.
  struct Phase {
    int64_t first = 0;
    std::vector<int64_t> done;  // rows of each source before it
    Period period;
  };

  static Period period_of(const std::vector<double>& weights);
  const Phase& phase_of(int64_t position) const;

  int64_t rows_ = 0;
  std::vector<Phase> phases_;
};

}  // namespace paceline::data
