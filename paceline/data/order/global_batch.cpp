#include "paceline/data/order/global_batch.h"

#include <algorithm>

namespace paceline::data {
namespace {

int64_t global_batch(const BatchOptions& options) {
  return options.batch_size * options.world_size;
}
int64_t rows_left(const BatchOptions& options) {
  return options.rows - options.position;
}
int64_t whole_steps(const BatchOptions& options) {
  return rows_left(options) / global_batch(options);
}
int64_t remainder(const BatchOptions& options) {
  return rows_left(options) % global_batch(options);
}

// Rows and padding of a rank in the last step, when that is smaller.
int64_t last_share(const BatchOptions& options, int64_t rank) {
  const int64_t rest = remainder(options);
  switch (options.equal) {
    case Equal::drop:
      return rest / options.world_size;
    case Equal::pad:
    case Equal::repeat:
      return (rest + options.world_size - 1) / options.world_size;
    case Equal::uneven:
      break;
  }
  return rest / options.world_size + (rank < rest % options.world_size ? 1 : 0);
}

// Rows and padding of all ranks before `rank` in the last step.
int64_t shares_before(const BatchOptions& options, int64_t rank) {
  if (options.equal != Equal::uneven) return rank * last_share(options, rank);
  const int64_t rest = remainder(options);
  return rank * (rest / options.world_size) + std::min(rank, rest % options.world_size);
}

}  // namespace

int64_t steps_of(const BatchOptions& options, int64_t rank) {
  const bool has_last = !options.drop_last && last_share(options, rank) > 0;
  return whole_steps(options) + (has_last ? 1 : 0);
}

Slice slice_of(const BatchOptions& options, int64_t step, int64_t rank) {
  const int64_t first = options.position + step * global_batch(options);
  if (step < whole_steps(options)) return {.first = first + rank * options.batch_size, .rows = options.batch_size};
  const int64_t share = last_share(options, rank);
  const int64_t before = shares_before(options, rank);
  const int64_t rows = std::clamp<int64_t>(remainder(options) - before, 0, share);
  Slice slice{.first = first + std::min(before, remainder(options)), .rows = rows, .padding = share - rows};
  if (options.equal == Equal::repeat && slice.padding > 0) {
    slice.padding_first = (first + before + rows - options.rows) % options.rows;
  }
  return slice;
}

int64_t position_after(const BatchOptions& options, int64_t step) {
  const int64_t position = options.position + (step + 1) * global_batch(options);
  return step + 1 < steps_of(options, 0) ? position : options.rows;
}

}  // namespace paceline::data
