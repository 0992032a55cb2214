// RunDatasets: the datasets of a trainer, as they travel to its workers. Not for users.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "paceline/data/order/global_batch.h"
#include "paceline/data/plan/plan.h"
#include "paceline/train/data/data_config.h"

namespace paceline::train {

struct RunDatasets {
  std::map<std::string, data::Plan> plans;
  DataConfig config;
};

/// As bytes; "" for a run without datasets. ConfigError for a dataset that cannot travel.
std::string encode_datasets(const RunDatasets& datasets);
/// Rows in memory are not copied: the bytes have to outlive them. ConfigError for other bytes.
RunDatasets decode_datasets(std::string_view bytes);

/// What becomes of rows that the ranks cannot share evenly, by DataConfig's word.
data::Equal equal_of(const std::string& word);
/// Of the dataset `name`: that of its own, or the one for all.
data::Equal equal_of(const DataConfig& config, const std::string& name);

}  // namespace paceline::train
