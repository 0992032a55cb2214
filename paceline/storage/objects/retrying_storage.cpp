#include "paceline/storage/objects/retrying_storage.h"

#include <algorithm>
#include <random>
#include <thread>

#include "paceline/storage/objects/transience.h"

namespace paceline::storage {
namespace {

arrow::Status status_of(const arrow::Status& status) {
  return status;
}
template <class T>
arrow::Status status_of(const arrow::Result<T>& result) {
  return result.status();
}

}  // namespace

Duration pause_before_retry(int64_t retry, const RetryPolicy& policy) {
  const int64_t doublings = std::min<int64_t>(retry - 1, 20);
  const Duration whole = std::min(policy.longest_pause, policy.first_pause * (int64_t{1} << doublings));
  thread_local std::minstd_rand random(std::random_device{}());
  return std::chrono::duration_cast<Duration>(whole * std::uniform_real_distribution<double>(0.5, 1.0)(random));
}

// What readers need too.
struct RetryingStorage::Tries {
  RetryPolicy policy;
  std::function<void(Duration)> sleep;
  std::shared_ptr<const Clock> clock;

  template <class Call>
  auto operator()(const Call& call) const {
    const Time deadline = clock->now() + policy.budget;
    for (int64_t tries = 1;; ++tries) {
      auto result = call();
      const arrow::Status status = status_of(result);
      if (!is_transient(status)) return result;
      const Duration pause = pause_before_retry(tries, policy);
      if (clock->now() + pause > deadline) {
        return decltype(result)(
            status.WithMessage(status.message(), " (tried ", tries, " times in ",
                               std::chrono::duration_cast<std::chrono::seconds>(policy.budget).count(),
                               " s; is the storage reachable from this machine?)"));
      }
      sleep(pause);
    }
  }
};

namespace {

template <class Tries>
class RetryingReader final : public FileReader {
 public:
  RetryingReader(std::unique_ptr<FileReader> inner, std::shared_ptr<const Tries> tries)
      : inner_(std::move(inner)), tries_(std::move(tries)) {}
  int64_t size() const override { return inner_->size(); }
  arrow::Result<size_t> read_at(int64_t offset, std::span<std::byte> buffer) const override {
    return (*tries_)([&] { return inner_->read_at(offset, buffer); });
  }

 private:
  std::unique_ptr<FileReader> inner_;
  std::shared_ptr<const Tries> tries_;
};

}  // namespace

RetryingStorage::RetryingStorage(std::shared_ptr<Storage> inner, RetryPolicy policy,
                                 std::function<void(Duration)> sleep, std::shared_ptr<const Clock> clock)
    : inner_(std::move(inner)) {
  if (!sleep) sleep = [](Duration pause) { std::this_thread::sleep_for(pause); };
  if (!clock) clock = std::make_shared<SystemClock>();
  tries_ = std::make_shared<const Tries>(Tries{policy, std::move(sleep), std::move(clock)});
}

RetryingStorage::~RetryingStorage() = default;

Location RetryingStorage::location(const std::string& name) const {
  return inner_->location(name);
}

arrow::Status RetryingStorage::write(const std::string& name, std::string_view content) {
  return (*tries_)([&] { return inner_->write(name, content); });
}

arrow::Result<FileSum> RetryingStorage::upload(const std::string& local_file, const std::string& name) {
  return (*tries_)([&] { return inner_->upload(local_file, name); });
}

arrow::Status RetryingStorage::copy(const std::string& from, const std::string& to) {
  return (*tries_)([&] { return inner_->copy(from, to); });
}

arrow::Result<std::unique_ptr<FileReader>> RetryingStorage::open(const std::string& name) const {
  ARROW_ASSIGN_OR_RAISE(auto reader, (*tries_)([&] { return inner_->open(name); }));
  return std::make_unique<RetryingReader<Tries>>(std::move(reader), tries_);
}

arrow::Result<std::vector<FileSize>> RetryingStorage::list(const std::string& folder) const {
  return (*tries_)([&] { return inner_->list(folder); });
}

arrow::Status RetryingStorage::remove(const std::string& name) {
  return (*tries_)([&] { return inner_->remove(name); });
}

arrow::Status RetryingStorage::remove_below(const std::string& folder) {
  return (*tries_)([&] { return inner_->remove_below(folder); });
}

}  // namespace paceline::storage
