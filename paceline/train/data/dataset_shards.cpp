#include "paceline/train/data/dataset_shards.h"

#include <algorithm>

#include "paceline/checkpoint/tensor_reader.h"
#include "paceline/core/error.h"
#include "paceline/train/data/data_iterator.h"
#include "paceline/train/prepare_data_loader.h"
#include "paceline/train/worker/language_runtime.h"
#include "paceline/train/worker/session_internal.h"

namespace paceline {
namespace train {

std::shared_ptr<data::DatasetReader> DatasetShards::reader(const std::string& name) {
  if (client_ == nullptr) client_ = data_client({});
  if (client_ != nullptr) return client_->reader(name);
  return data::local_reader(value_or_throw(data::open(datasets_.plans.at(name))));
}

std::shared_ptr<data::Epochs> DatasetShards::find(const std::string& name) const {
  const auto share = std::ranges::find(shares_, name, &std::pair<std::string, std::shared_ptr<data::Epochs>>::first);
  return share == shares_.end() ? nullptr : share->second;
}

void DatasetShards::add(const std::string& name, std::shared_ptr<data::Epochs> share,
                        const storage::Location& resume_from) {
  if (!resume_from.empty()) {
    const auto reader = value_or_throw(checkpoint::TensorReader::open(resume_from));
    const Json positions = reader.manifest().values.value(kPositions, Json::object());
    if (const auto position = positions.find(name); position != positions.end()) {
      const arrow::Status loaded = share->load_state(*position);
      if (!loaded.ok()) {
        throw ConfigError("the dataset \"" + name + "\" cannot go on where the checkpoint " + resume_from.text() +
                          " was reported: " + loaded.message() + "; or set DataConfig.resume = false");
      }
    }
  }
  shares_.emplace_back(name, std::move(share));
}

Json DatasetShards::positions() const {
  Json positions = Json::object();
  for (const auto& [name, share] : shares_) positions[name] = value_or_throw(share->state());
  return positions;
}

void offer_datasets(std::string_view bytes) {
  Session::current("get_dataset_shard()").datasets().offer(decode_datasets(bytes));
}

namespace {

// The checkpoint with which the session has begun, if it is the run's own; otherwise "".
storage::Location own_checkpoint(const SessionOptions& options) {
  const std::string path = options.checkpoint.text().substr(0, options.checkpoint.text().find('?'));
  const std::string name = path.substr(path.rfind('/') + 1);
  const bool is_own = storage::join(options.context.storage, name) == options.checkpoint;
  return is_own ? options.checkpoint : storage::Location();
}

// The only one, where none is named.
std::string chosen(const std::string& name, const std::map<std::string, data::Plan>& plans) {
  if (plans.contains(name)) return name;
  if (name.empty() && plans.size() == 1) return plans.begin()->first;
  std::string names;
  for (const auto& [other, plan] : plans) names += (names.empty() ? "" : ", ") + other;
  throw ConfigError("the trainer has no dataset \"" + name + "\"; it was given " +
                    (names.empty() ? "none (TorchTrainerOptions.datasets)" : names));
}

data::RankShare share_of(const std::string& name, const DataConfig& config, const TrainContext::Values& context) {
  const auto& split = config.datasets_to_split;
  if (split && std::ranges::find(*split, name) == split->end()) return {};
  return {.rank = context.world_rank, .world_size = context.world_size, .equal = equal_of(config, name)};
}

}  // namespace

void add_shard(const std::string& name, std::shared_ptr<data::Epochs> share, bool resume) {
  Session& session = Session::current("get_dataset_shard()");
  session.datasets().add(name, std::move(share), resume ? own_checkpoint(session.options()) : storage::Location());
}

}  // namespace train

DataIterator get_dataset_shard(const std::string& wanted) {
  train::Session& session = train::Session::current("get_dataset_shard()");
  const TrainContext::Values& context = session.options().context;
  train::DatasetShards& shards = session.datasets();
  const auto& [plans, config] = shards.offered();
  const std::string name = train::chosen(wanted, plans);
  if (shards.find(name) == nullptr) {
    train::add_shard(name, std::make_shared<data::Epochs>(shards.reader(name), train::share_of(name, config, context)),
                     config.resume);
  }
  return {shards.find(name), train::loader_place(),
          train::limits_of(config.execution_options, context.local_world_size)};
}

}  // namespace paceline
