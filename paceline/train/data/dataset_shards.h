// DatasetShards: the datasets of a run in one of its workers, and where their shares are. Not for users.
//
// A session has one. The train loop's thread calls it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/data/reader/epochs.h"
#include "paceline/data/service/data_client.h"
#include "paceline/storage/location.h"
#include "paceline/train/data/run_datasets.h"

namespace paceline::train {

/// Where the manifest of a checkpoint keeps the positions: no item that Checkpoint::save() is given has such a name.
inline constexpr const char* kPositions = ".datasets";

class DatasetShards {
 public:
  /// What the run's datasets are.
  void offer(RunDatasets datasets) { datasets_ = std::move(datasets); }
  const RunDatasets& offered() const { return datasets_; }

  /// Who reads one of them: the node's data process where there is one, else this process. StorageError or ConfigError
  /// for one that cannot be opened here.
  std::shared_ptr<data::DatasetReader> reader(const std::string& name);

  /// The share of that name that was added; null if there is none.
  std::shared_ptr<data::Epochs> find(const std::string& name) const;
  /// A share whose position is kept from here on. It goes on where the checkpoint at `resume_from` has it, if that has
  /// it; "" for none. ConfigError when that is the position of another dataset, StorageError for a checkpoint that
  /// cannot be read.
  void add(const std::string& name, std::shared_ptr<data::Epochs> share, const storage::Location& resume_from);
  /// Where they are, by name. ConfigError or StorageError where a dataset cannot say it.
  Json positions() const;

 private:
  RunDatasets datasets_;
  std::shared_ptr<data::DataClient> client_;  // once there is one
  std::vector<std::pair<std::string, std::shared_ptr<data::Epochs>>> shares_;
};

/// Before the train loop: what encode_datasets() made are the datasets of this session. The bytes outlive it.
void offer_datasets(std::string_view bytes);
/// DatasetShards::add() in the session of this process. With `resume` the share goes on where the checkpoint has it
/// with which this attempt has begun, if that is one of the run's own. UsageError outside a train loop.
void add_shard(const std::string& name, std::shared_ptr<data::Epochs> share, bool resume);

}  // namespace paceline::train
