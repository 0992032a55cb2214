// Arena: memory that tensors are copied into, so that training may go on while their copies are written. Not for users.
//
// The memory is kept and used again: the second checkpoint of a size costs no page faults. It grows to the largest
// that was copied. The copy is one pass with LibTorch's intra-op threads; from a GPU it goes through pinned memory.
// Not thread-safe.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "paceline/state/stateful.h"

namespace paceline::train {

class Arena {
 public:
  /// The same states with tensors that are contiguous copies in this arena, on the CPU. They are valid until the next
  /// copy().
  std::vector<StateDict> copy(const std::vector<StateDict>& states);
  /// Bytes held.
  int64_t size() const { return memory_.defined() ? memory_.numel() : 0; }

 private:
  void reserve(int64_t bytes, bool pinned);

  torch::Tensor memory_;
};

}  // namespace paceline::train
