// StatusWatch: what the drivers of live runs say of them, told by them as it changes (rpc/watch_messages.h).
//
// A run is watched from the first question for it until nobody has asked for a while: then its driver does nothing for
// us. A thread of its own has the connections. Thread-safe.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "paceline/core/json.h"
#include "paceline/rpc/watch_messages.h"

namespace paceline::run {

class StatusWatch {
 public:
  /// Called on the watch's thread when the status of the run in that folder has become another, or nobody tells it any
  /// more; must not wait, nor ask the watch.
  using OnChange = std::function<void(const std::string& run_folder)>;

  struct Options {
    OnChange on_change;
    /// How long a run is watched after the last question for it.
    std::chrono::milliseconds linger{3'000};
    /// How long a driver that has told its status before may take to answer.
    std::chrono::milliseconds own_answer{static_cast<int>(rpc::kOwnAnswer * 2'000)};
  };
  static std::unique_ptr<StatusWatch> start(Options options);
  virtual ~StatusWatch() = default;

  /// The status of the live run in the folder: what its driver told last, or, where it does not tell, what it answers.
  /// Waits for up to `patience` for a driver that has been asked for no longer than that; of one that has said nothing
  /// for longer it says so at once, and `on_change` is called when it answers after all. While a driver that has told
  /// its status before may still answer, that is given. Errors as request_status().
  virtual arrow::Result<Json> status(const std::string& run_folder, std::chrono::milliseconds patience) = 0;
};

}  // namespace paceline::run
