// What the copies of a Dataset share.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "paceline/core/posix/forks.h"
#include "paceline/data/dataset/dataset.h"

namespace paceline::data {

/// Adds to a step's options what becomes of bad rows. ConfigError for other words.
void add_bad_rows(const std::string& on_error, const std::string& quarantine, Json& options);

struct Dataset::Shared {
  explicit Shared(SharedPlan of) : plan(std::move(of)) {}
  const SharedPlan plan;
  const PerProcess<std::mutex> mutex;
  std::shared_ptr<DatasetReader> reader;  // once it was asked for
};

}  // namespace paceline::data
