// prepare_data_loader: makes a loader of this worker's share of a dataset, which loads batches ahead and moves them to
// the device.
#pragma once

#include <memory>
#include <utility>

#include "paceline/loader/data_loader.h"

namespace paceline {
namespace train {

/// Rank, device and step ledger of the current session; stops and phases are its too.
LoaderPlace loader_place();

}  // namespace train

/// Splits `dataset` (a torch::data dataset; see loader/collate.h) over the ranks in the order of PyTorch's
/// DistributedSampler: seed, epoch, padding and drop_last work as there. Each iteration is the next epoch unless
/// set_epoch() says otherwise. `sampler`, if given, decides the order; a sampler that is already distributed is used as
/// it is. Put the loader into checkpoints, which then have its position: a resumed run continues in the middle of an
/// epoch. With `evaluation` no row is given twice. Throws ConfigError for options that are not allowed.
///
///     auto loader = paceline::prepare_data_loader(Mnist("./data"), {.batch_size = 64, .shuffle = true});
///     for (auto& [images, labels] : loader) …
template <class Dataset>
DataLoader<Dataset> prepare_data_loader(Dataset dataset, const DataLoaderOptions& options = {},
                                        std::shared_ptr<loader::Sampler> sampler = nullptr) {
  return DataLoader<Dataset>(std::move(dataset), options, train::loader_place(), std::move(sampler));
}

}  // namespace paceline
