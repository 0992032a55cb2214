// A part of a source's rows, each of which is in it by chance, or the others.
//
// Which rows these are follows from the seed and from where they stand in the source, and from nothing else: they are
// the same in every epoch, in whatever order they are read, and for each step behind. So two parts never have a row in
// common.
#pragma once

#include <cstdint>
#include <memory>

#include "paceline/data/source/source.h"

namespace paceline::data {

struct SampleOptions {
  double fraction = 1;      ///< of the rows, about: 0 to 1
  int64_t seed = 0;         ///< of chance
  bool complement = false;  ///< the rows that would not be taken
};

/// The rows of `source` that are taken, in their order. It counts its rows if the source does, so that what needs their
/// number need not read them, except of very many: more than `most_counted`.
std::shared_ptr<const Source> sampled(std::shared_ptr<const Source> source, const SampleOptions& options,
                                      int64_t most_counted = int64_t{1} << 28);

}  // namespace paceline::data
