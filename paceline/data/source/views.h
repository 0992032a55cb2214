// Sources made of others without reading them: several as one, a part of one, one whose rows have been counted.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <vector>

#include "paceline/data/source/source.h"

namespace paceline::data {

/// The chunks of all of `sources`, one source after the other; at least one.
std::shared_ptr<const Source> concatenated(std::vector<std::shared_ptr<const Source>> sources);

/// The rows `first` … `first + rows - 1` of a source, in its own order, or those of them that there are. Chunks that
/// have none of them are left out. The source must count its rows.
std::shared_ptr<const Source> range_of(std::shared_ptr<const Source> source, int64_t first, int64_t rows);

/// A source with the same rows that counts them. Where `source` does not, all chunks up to the first `rows` rows are
/// read once, on `threads` threads; what stands behind these chunks is left out. Chunks that have another number of
/// rows when they are read again are an error: a filter that depends on chance has no number of rows.
arrow::Result<std::shared_ptr<const Source>> counted(std::shared_ptr<const Source> source, int64_t rows,
                                                     size_t threads);

/// The same rows in `chunks` chunks of equal size, as far as that goes. The source must count its rows.
std::shared_ptr<const Source> repartitioned(std::shared_ptr<const Source> source, int64_t chunks);

/// The same rows in about the same chunks, each of which ends after a multiple of `rows` rows; the last where the rows
/// end. The source must count its rows.
std::shared_ptr<const Source> in_multiples(std::shared_ptr<const Source> source, int64_t rows);

/// The rows of a source in an order of its chunks, each window a chunk: an order that stays, whatever is done to the
/// rows afterwards. The source must count its rows.
std::shared_ptr<const Source> ordered(std::shared_ptr<const Source> source, EpochOrder order);

/// A source and its order, of which `epoch` does not count.
struct OrderedSource {
  std::shared_ptr<const Source> source;  ///< which counts its rows
  OrderOptions order;
  bool stays = false;  ///< whether every epoch has the same order
};

}  // namespace paceline::data
