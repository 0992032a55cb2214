// prepare_data_loader: a data set's batches for this worker: its share of the rows, loaded ahead, on its device.
#pragma once

#include <memory>
#include <utility>

#include "paceline/loader/data_loader.h"

namespace paceline {
namespace train {

/// Rank, device and step ledger of the current session; stops and phases are its too.
LoaderPlace loader_place();

}  // namespace train

/// Shares `dataset` (a torch::data data set; see loader/collate.h) out over the ranks in the order of PyTorch's
/// DistributedSampler: seed, epoch, padding or drop_last as there. Each iteration is the next epoch unless set_epoch()
/// says otherwise. `sampler`, if given, decides the order; one that is distributed already is left alone. The loader
/// owns its position: put it into checkpoints, and a resumed run goes on in the middle of an epoch.
/// `evaluation` gives no row twice. ConfigError for options that are not allowed.
///
///     auto loader = paceline::prepare_data_loader(Mnist("./data"), {.batch_size = 64, .shuffle = true});
///     for (auto& [images, labels] : loader) …
template <class Dataset>
DataLoader<Dataset> prepare_data_loader(Dataset dataset, const DataLoaderOptions& options = {},
                                        std::shared_ptr<loader::Sampler> sampler = nullptr) {
  return DataLoader<Dataset>(std::move(dataset), options, train::loader_place(), std::move(sampler));
}

}  // namespace paceline
