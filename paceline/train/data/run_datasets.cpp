#include "paceline/train/data/run_datasets.h"

#include <arrow/buffer.h>

#include <memory>

#include "paceline/core/error.h"
#include "paceline/data/plan/codec.h"

namespace paceline::train {

// The configuration's line stands behind the plans, whose rows are where the codec has put them.
std::string encode_datasets(const RunDatasets& datasets) {
  if (datasets.plans.empty()) return "";
  const std::string config = encode_json(Json(datasets.config));
  auto plans = data::encode_plans(datasets.plans);
  if (!plans.ok()) throw ConfigError("TorchTrainerOptions.datasets: " + plans.status().message());
  return *std::move(plans) + '\n' + config;
}

RunDatasets decode_datasets(std::string_view bytes) {
  if (bytes.empty()) return {};
  const size_t end = bytes.rfind('\n');
  RunDatasets datasets;
  datasets.config = value_or_throw(decode_json(bytes.substr(end + 1))).get<DataConfig>();
  datasets.plans = value_or_throw(data::decode_plans(
      std::make_shared<arrow::Buffer>(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int64_t>(end))));
  return datasets;
}

data::Equal equal_of(const std::string& word) {
  if (word == "drop") return data::Equal::drop;
  if (word == "pad") return data::Equal::pad;
  if (word == "repeat") return data::Equal::repeat;
  return data::Equal::uneven;
}

data::Equal equal_of(const DataConfig& config, const std::string& name) {
  const auto own = config.equal_by_name.find(name);
  return equal_of(own != config.equal_by_name.end() ? own->second : config.equal);
}

}  // namespace paceline::train
