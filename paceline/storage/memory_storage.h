// MemoryStorage: a Storage in this process's memory: the reference that every other must behave like.
#pragma once

#include <map>
#include <mutex>

#include "paceline/storage/storage.h"

namespace paceline::storage {

class MemoryStorage final : public Storage {
 public:
  Location location(const std::string& name) const override;
  arrow::Status write(const std::string& name, std::string_view content) override;
  arrow::Result<FileSum> upload(const std::string& local_file, const std::string& name) override;
  arrow::Status copy(const std::string& from, const std::string& to) override;
  arrow::Result<std::unique_ptr<FileReader>> open(const std::string& name) const override;
  arrow::Result<std::vector<FileSize>> list(const std::string& folder) const override;
  arrow::Status remove(const std::string& name) override;
  arrow::Status remove_below(const std::string& folder) override;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const std::string>> files_;
};

}  // namespace paceline::storage
