// LocalStorage: a local folder as a Storage, with the durable and atomic functions of durable.h.
#pragma once

#include "paceline/storage/storage.h"

namespace paceline::storage {

class LocalStorage final : public Storage {
 public:
  /// `folder` is absolute; it is made with the first file in it.
  explicit LocalStorage(std::string folder) : folder_(std::move(folder)) {}

  Location location(const std::string& name) const override;
  arrow::Status write(const std::string& name, std::string_view content) override;
  arrow::Result<FileSum> upload(const std::string& local_file, const std::string& name) override;
  arrow::Status copy(const std::string& from, const std::string& to) override;
  arrow::Result<std::unique_ptr<FileReader>> open(const std::string& name) const override;
  arrow::Result<std::vector<FileSize>> list(const std::string& folder) const override;
  arrow::Status remove(const std::string& name) override;
  arrow::Status remove_below(const std::string& folder) override;

 private:
  arrow::Result<std::string> path_for_writing(const std::string& name) const;
  std::string path_of(const std::string& name) const;

  std::string folder_;
};

}  // namespace paceline::storage
