// RetryingStorage: a Storage whose calls are tried again while their errors can pass by themselves.
//
// Between tries it sleeps: the n-th time a random part, at least half, of first_pause * 2^n, at most longest_pause, so
// that many workers do not come back at once. A call whose tries and pauses would take longer than the budget gives its
// last error, with the number of tries. All calls can be repeated: names have one meaning, and files appear whole.
#pragma once

#include <functional>

#include "paceline/core/clock.h"
#include "paceline/storage/storage.h"

namespace paceline::storage {

struct RetryPolicy {
  Duration first_pause = std::chrono::milliseconds(100);
  Duration longest_pause = std::chrono::seconds(8);
  /// For one call. open_storage() takes it from the environment variable PACELINE_STORAGE_RETRY_S, in seconds.
  Duration budget = std::chrono::seconds(120);
};

/// How long to sleep before the n-th retry, from 1.
Duration pause_before_retry(int64_t retry, const RetryPolicy& policy);

class RetryingStorage final : public Storage {
 public:
  /// `sleep` and `clock` are replaced by tests.
  explicit RetryingStorage(std::shared_ptr<Storage> inner, RetryPolicy policy = {},
                           std::function<void(Duration)> sleep = {}, std::shared_ptr<const Clock> clock = nullptr);
  ~RetryingStorage() override;

  Location location(const std::string& name) const override;
  arrow::Status write(const std::string& name, std::string_view content) override;
  arrow::Result<FileSum> upload(const std::string& local_file, const std::string& name) override;
  arrow::Status copy(const std::string& from, const std::string& to) override;
  arrow::Result<std::unique_ptr<FileReader>> open(const std::string& name) const override;
  arrow::Result<std::vector<FileSize>> list(const std::string& folder) const override;
  arrow::Status remove(const std::string& name) override;
  arrow::Status remove_below(const std::string& folder) override;

 private:
  struct Tries;
  std::shared_ptr<Storage> inner_;
  std::shared_ptr<const Tries> tries_;
};

}  // namespace paceline::storage
