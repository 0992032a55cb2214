// RowSeed and RowRandom: random numbers of a dataset's rows that depend on seed, epoch and row only.
//
// LibTorch has one default CPU generator for the whole process. While a RowRandom lives, draws of its thread that name
// no generator (torch::rand, torch::randperm, dropout, …) come from a generator of its row instead: neither the order
// in which threads run decides what they give, nor do they disturb the draws of other threads. That is so for tensors
// on the CPU and on CUDA devices, except for the dropout inside of CUDA's attention and recurrent layers. What is no
// draw is not caught: torch::manual_seed() seeds the process's generator here too.
//
// RowSeed is a value. A RowRandom belongs to the thread that made it; they nest.
#pragma once

#include <torch/torch.h>

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::loader {

/// What random numbers of rows depend on, beside the row.
struct RowSeed {
  int64_t seed = 0;
  int64_t epoch = 0;

  /// A seed for the generator of `row`; neighbours get seeds that have nothing in common.
  uint64_t of(size_t row) const;
};

class RowRandom {
 public:
  /// Makes no generator before the first draw.
  RowRandom(const RowSeed& seed, size_t row);
  ~RowRandom();
  RowRandom(const RowRandom&) = delete;
  RowRandom& operator=(const RowRandom&) = delete;

  /// The row's generator for tensors on `device`, the CPU or a CUDA device.
  torch::Generator generator(torch::Device device = torch::kCPU);

 private:
  const uint64_t seed_;
  std::vector<torch::Generator> generators_;  // one a device
  RowRandom* const outer_;
  const c10::impl::IncludeDispatchKeyGuard intercepts_;
};

}  // namespace paceline::loader
