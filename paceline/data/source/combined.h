// Several sources as one, row by row: mixed by weights, or side by side.
//
// Each input keeps its own order, shuffled or not, in each epoch, or in all the same (OrderedSource::stays). Chunks are
// pieces of the common order, about as large as those of the inputs. A row of the result is found by its position
// alone.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <vector>

#include "paceline/data/order/mix_order.h"
#include "paceline/data/source/source.h"
#include "paceline/data/source/views.h"

namespace paceline::data {

/// The rows of all inputs, interleaved as `order` says, which was made for their counts. Columns that an input lacks
/// are null.
std::shared_ptr<const Source> interleaved(std::vector<OrderedSource> inputs, MixOrder order);

/// Row n of each input as one row. A column whose name is there already is called "name_1", then "name_2". Invalid
/// where inputs have different numbers of rows.
arrow::Result<std::shared_ptr<const Source>> zipped(std::vector<OrderedSource> inputs);

}  // namespace paceline::data
