// What the copies of a Dataset share.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "paceline/core/posix/forks.h"
#include "paceline/data/dataset/dataset.h"

namespace paceline::data {

struct Dataset::Shared {
  explicit Shared(Plan of) : plan(std::make_shared<const Plan>(std::move(of))) {}
  const std::shared_ptr<const Plan> plan;
  const PerProcess<std::mutex> mutex;
  std::shared_ptr<DatasetReader> reader;  // once it was asked for
};

}  // namespace paceline::data
