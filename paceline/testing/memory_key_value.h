// MemoryKeyValue: a KeyValueClient inside one process, shared by the ranks of a test.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>

#include "paceline/rpc/key_value.h"

namespace paceline::testing {

class MemoryKeyValue final : public rpc::KeyValueClient {
 public:
  arrow::Status set(const std::string& key, const std::string& value) override {
    std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
    return arrow::Status::OK();
  }
  arrow::Result<std::string> get(const std::string& key, Timeout timeout) override {
    ARROW_RETURN_NOT_OK(wait({key}, timeout));
    std::lock_guard lock(mutex_);
    return values_[key];
  }
  arrow::Result<int64_t> add(const std::string& key, int64_t amount) override {
    std::lock_guard lock(mutex_);
    auto& value = values_[key];
    const int64_t sum = (value.empty() ? 0 : std::stoll(value)) + amount;
    value = std::to_string(sum);
    changed_.notify_all();
    return sum;
  }
  arrow::Result<std::string> compare_set(const std::string& key, const std::string& expected,
                                         const std::string& desired) override {
    std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end() ? !expected.empty() : found->second != expected) {
      return found == values_.end() ? expected : found->second;
    }
    values_[key] = desired;
    changed_.notify_all();
    return desired;
  }
  arrow::Status append(const std::string& key, const std::string& value) override {
    std::lock_guard lock(mutex_);
    values_[key] += value;
    changed_.notify_all();
    return arrow::Status::OK();
  }
  arrow::Result<bool> check(const std::vector<std::string>& keys) override {
    std::lock_guard lock(mutex_);
    return has_all(keys);
  }
  arrow::Status wait(const std::vector<std::string>& keys, Timeout timeout) override {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, timeout, [&] { return has_all(keys); })) return arrow::Status::OK();
    return arrow::Status::Cancelled("keys did not come within ", timeout.count(), " ms");
  }
  arrow::Result<bool> delete_key(const std::string& key) override {
    std::lock_guard lock(mutex_);
    return values_.erase(key) > 0;
  }
  arrow::Result<int64_t> num_keys() override {
    std::lock_guard lock(mutex_);
    return static_cast<int64_t>(values_.size());
  }

 private:
  bool has_all(const std::vector<std::string>& keys) const {
    for (const auto& key : keys) {
      if (values_.count(key) == 0) return false;
    }
    return true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace paceline::testing
