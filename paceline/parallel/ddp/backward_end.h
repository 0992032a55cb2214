// BackwardEnd: the end of a backward, to which the models of its loss come together.
//
// Their averages make a model wait for other ranks, and which model's gradients come first is not the same on every
// rank. So nobody waits before the end, and there the models take turns in the order in which they were prepared, which
// is the same everywhere.
// Threading: the threads of one backward; several backwards may run at once.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "paceline/parallel/join.h"

namespace paceline::parallel {

/// What one model does at the end. An exception of one is backward's. In finish() the others come to their end all the
/// same, as they do on ranks where nothing has failed.
class EndOfModel {
 public:
  virtual ~EndOfModel() = default;
  /// Whom the end is announced to, and as which model; null for nobody.
  virtual std::pair<std::shared_ptr<JoinedRanks>, size_t> join() const = 0;
  /// Begins what other ranks may wait for, of all models before any of them waits: it must not wait itself.
  virtual void begin() = 0;
  /// What has to wait and yet comes before the averages are there.
  virtual void catch_up() = 0;
  /// The averages are there.
  virtual void finish() = 0;
};

/// The backward that runs in this thread, from inside which this is called, ends with `end`, and owns it: when the
/// backward throws, `end` is gone without being asked. `place` is the model's in the order of preparation.
void end_backward_with(int64_t place, std::shared_ptr<EndOfModel> end);

}  // namespace paceline::parallel
