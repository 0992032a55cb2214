// Which rows of an epoch each rank gets in each step: slices of global batches.
//
// Pure functions of counts. A step takes the next batch_size × world_size rows of the epoch's order (epoch_order.h),
// and rank r the r-th batch_size of them. So a step of all ranks is one piece of the order, and after each the position
// says what is done, whatever the world size was: whoever goes on from there may have another.
#pragma once

#include <cstdint>

namespace paceline::data {

/// What becomes of the rows at an epoch's end that are fewer than a global batch, and that the ranks cannot share
/// evenly.
enum class Equal {
  drop,    ///< the ranks get equally many; at most world_size - 1 rows are left out (as in Ray Data)
  pad,     ///< the ranks get equally many; where rows are missing there is padding, which is not data
  repeat,  ///< the ranks get equally many; missing rows are those from the order's beginning (as in DistributedSampler)
  uneven   ///< each row exactly once; ranks may differ by one row, and so by one step
};

struct BatchOptions {
  int64_t rows = 0;        ///< of the epoch
  int64_t position = 0;    ///< rows that are done, 0 ≤ position ≤ rows
  int64_t batch_size = 1;  ///< rows of a rank in a step, ≥ 1
  int64_t world_size = 1;  ///< ≥ 1
  Equal equal = Equal::drop;
  bool drop_last = false;  ///< leaves out the whole last step if it is smaller than the others
};

/// A rank's rows in a step: those at positions first … first + rows - 1, then `padding` more.
struct Slice {
  int64_t first = 0;
  int64_t rows = 0;
  int64_t padding = 0;        ///< with Equal::pad and repeat
  int64_t padding_first = 0;  ///< with Equal::repeat: position of the first row that is given again, modulo `rows`
  friend bool operator==(const Slice&, const Slice&) = default;
};

/// How many steps `rank` makes, 0 ≤ rank < world_size: with Equal::uneven rank 0 may make one more than the last.
int64_t steps_of(const BatchOptions& options, int64_t rank);
/// What `rank` gets in `step`, 0 ≤ step < steps_of(options, rank).
Slice slice_of(const BatchOptions& options, int64_t step, int64_t rank);
/// The position once all ranks have made steps 0 … step: in the last one the epoch's end, since what is left out there
/// is left out for good.
int64_t position_after(const BatchOptions& options, int64_t step);

}  // namespace paceline::data
