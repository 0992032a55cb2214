// Storages that misbehave around one that does not: every n-th call fails, each call takes time, the space ends.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <thread>

#include "paceline/core/posix/descriptor.h"
#include "paceline/storage/storage.h"

namespace paceline::testing {

/// Hands every call on to another storage, after asking `before`, which may fail it.
class GuardedStorage : public storage::Storage {
 public:
  /// `bytes`: that the call would add to the storage.
  using Before = std::function<arrow::Status(const std::string& call, const std::string& name, int64_t bytes)>;
  GuardedStorage(std::shared_ptr<storage::Storage> inner, Before before)
      : inner_(std::move(inner)), before_(std::move(before)) {}

  storage::Location location(const std::string& name) const override { return inner_->location(name); }
  arrow::Status write(const std::string& name, std::string_view content) override {
    ARROW_RETURN_NOT_OK(before_("write", name, static_cast<int64_t>(content.size())));
    return inner_->write(name, content);
  }
  arrow::Result<storage::FileSum> upload(const std::string& local_file, const std::string& name) override {
    ARROW_ASSIGN_OR_RAISE(const auto sum, storage::checksum_of_file(local_file));
    ARROW_RETURN_NOT_OK(before_("upload", name, sum.size));
    return inner_->upload(local_file, name);
  }
  arrow::Status copy(const std::string& from, const std::string& to) override {
    ARROW_RETURN_NOT_OK(before_("copy", to, 0));
    return inner_->copy(from, to);
  }
  arrow::Result<std::unique_ptr<storage::FileReader>> open(const std::string& name) const override {
    ARROW_RETURN_NOT_OK(before_("open", name, 0));
    return inner_->open(name);
  }
  arrow::Result<std::vector<storage::FileSize>> list(const std::string& folder) const override {
    ARROW_RETURN_NOT_OK(before_("list", folder, 0));
    return inner_->list(folder);
  }
  arrow::Status remove(const std::string& name) override {
    ARROW_RETURN_NOT_OK(before_("remove", name, 0));
    return inner_->remove(name);
  }
  arrow::Status remove_below(const std::string& folder) override {
    ARROW_RETURN_NOT_OK(before_("remove_below", folder, 0));
    return inner_->remove_below(folder);
  }

 private:
  std::shared_ptr<storage::Storage> inner_;
  Before before_;
};

/// Every n-th call fails as a throttling object store does: a call that is tried again succeeds.
inline std::shared_ptr<storage::Storage> every_nth_fails(std::shared_ptr<storage::Storage> inner, int64_t n) {
  auto calls = std::make_shared<std::atomic<int64_t>>(0);
  return std::make_shared<GuardedStorage>(std::move(inner), [calls, n](const std::string& call, const auto&, int64_t) {
    return ++*calls % n != 0 ? arrow::Status::OK()
                             : arrow::Status::IOError("AWS Error SLOW_DOWN during ", call, " (HTTP status 503)");
  });
}

inline std::shared_ptr<storage::Storage> each_takes(std::shared_ptr<storage::Storage> inner,
                                                    std::chrono::microseconds time) {
  return std::make_shared<GuardedStorage>(std::move(inner), [time](const auto&, const auto&, int64_t) {
    std::this_thread::sleep_for(time);
    return arrow::Status::OK();
  });
}

/// Room for `bytes`, whatever is deleted.
inline std::shared_ptr<storage::Storage> room_for(std::shared_ptr<storage::Storage> inner, int64_t bytes) {
  auto used = std::make_shared<std::atomic<int64_t>>(0);
  return std::make_shared<GuardedStorage>(std::move(inner),
                                          [used, bytes](const auto&, const std::string& name, int64_t added) {
                                            if (added == 0 || *used + added <= bytes) {
                                              *used += added;
                                              return arrow::Status::OK();
                                            }
                                            errno = ENOSPC;
                                            return errno_status("writing " + name);
                                          });
}

}  // namespace paceline::testing
