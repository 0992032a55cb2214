// The key-value store in a folder, for processes of a test that nobody serves: ranks that a test kills.
//
// A key is a file, which appears with its value. Whoever waits looks again and again.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/key_value.h"

namespace paceline::testing {

class FileKeyValue final : public rpc::KeyValueClient {
 public:
  /// The folder is made where it is not there.
  explicit FileKeyValue(std::string folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_ + "/keys");
  }

  arrow::Status set(const std::string& key, const std::string& value) override {
    const Lock lock(folder_);
    write(key, value);
    return arrow::Status::OK();
  }
  arrow::Result<std::string> get(const std::string& key, Timeout timeout) override {
    ARROW_RETURN_NOT_OK(wait({key}, timeout));
    return read(key);
  }
  arrow::Result<int64_t> add(const std::string& key, int64_t amount) override {
    const Lock lock(folder_);
    const int64_t sum = amount + (exists(key) ? std::stoll(read(key)) : 0);
    write(key, std::to_string(sum));
    return sum;
  }
  arrow::Result<std::string> compare_set(const std::string& key, const std::string& expected,
                                         const std::string& desired) override {
    const Lock lock(folder_);
    if (!exists(key) && !expected.empty()) return expected;
    if (exists(key) && read(key) != expected) return read(key);
    write(key, desired);
    return desired;
  }
  arrow::Status append(const std::string& key, const std::string& value) override {
    const Lock lock(folder_);
    write(key, (exists(key) ? read(key) : std::string()) + value);
    return arrow::Status::OK();
  }
  arrow::Result<bool> check(const std::vector<std::string>& keys) override {
    return std::ranges::all_of(keys, [this](const std::string& key) { return exists(key); });
  }
  arrow::Status wait(const std::vector<std::string>& keys, Timeout timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    for (const std::string& key : keys) {
      while (!exists(key)) {
        if (std::chrono::steady_clock::now() > deadline) return arrow::Status::Cancelled("missing key: " + key);
        ::sched_yield();
      }
    }
    return arrow::Status::OK();
  }
  arrow::Result<bool> delete_key(const std::string& key) override {
    const Lock lock(folder_);
    return std::filesystem::remove(path_of(key));
  }
  arrow::Result<int64_t> num_keys() override {
    const std::filesystem::directory_iterator keys(folder_ + "/keys");
    return std::distance(begin(keys), end(keys));
  }

 private:
  // Of all processes; a process that dies gives it back.
  class Lock {
   public:
    explicit Lock(const std::string& folder) : file_(::open((folder + "/lock").c_str(), O_CREAT | O_RDWR, 0600)) {
      ::flock(file_.get(), LOCK_EX);
    }

   private:
    const Descriptor file_;
  };

  std::string path_of(std::string key) const {
    std::ranges::replace(key, '/', '_');
    return folder_ + "/keys/" + key;
  }
  bool exists(const std::string& key) const { return std::filesystem::exists(path_of(key)); }
  std::string read(const std::string& key) const {
    std::stringstream text;
    text << std::ifstream(path_of(key), std::ios::binary).rdbuf();
    return text.str();
  }
  // With the lock held.
  void write(const std::string& key, const std::string& value) const {
    std::ofstream(folder_ + "/new", std::ios::binary) << value;
    std::filesystem::rename(folder_ + "/new", path_of(key));
  }

  const std::string folder_;
};

}  // namespace paceline::testing
