#include "paceline/loader/sampler.h"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>

namespace paceline {

std::vector<size_t> global_order(int64_t size, bool shuffle, int64_t seed, int64_t epoch) {
  std::vector<size_t> order(static_cast<size_t>(size));
  if (!shuffle) {
    std::iota(order.begin(), order.end(), size_t{0});
    return order;
  }
  auto generator = at::make_generator<at::CPUGeneratorImpl>();
  generator.set_current_seed(static_cast<uint64_t>(seed + epoch));
  const torch::Tensor permutation = at::randperm(size, generator, at::TensorOptions(at::kLong));
  std::copy_n(permutation.const_data_ptr<int64_t>(), size, order.begin());
  return order;
}

int64_t share_size(const OrderOptions& options) {
  const int64_t left = std::max<int64_t>(options.size - options.position, 0);
  switch (options.remainder) {
    case Remainder::drop:
      return left / options.world_size;
    case Remainder::keep:
      return left / options.world_size + (options.rank < left % options.world_size ? 1 : 0);
    case Remainder::pad:
      break;
  }
  return (left + options.world_size - 1) / options.world_size;
}

std::vector<size_t> share_of_rank(const std::vector<size_t>& global, const OrderOptions& options) {
  std::vector<size_t> rows(static_cast<size_t>(share_size(options)));
  size_t place = static_cast<size_t>(options.position + options.rank);
  for (size_t& row : rows) {
    row = global[place % global.size()];  // past the end: padding from the start
    place += static_cast<size_t>(options.world_size);
  }
  return rows;
}

std::vector<size_t> distributed_order(const OrderOptions& options) {
  return share_of_rank(global_order(options.size, options.shuffle, options.seed, options.epoch), options);
}

}  // namespace paceline
