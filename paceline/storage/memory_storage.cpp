#include "paceline/storage/memory_storage.h"

#include <cstring>

#include "paceline/storage/local/durable.h"

namespace paceline::storage {
namespace {

class MemoryReader final : public FileReader {
 public:
  explicit MemoryReader(std::shared_ptr<const std::string> content) : content_(std::move(content)) {}
  int64_t size() const override { return static_cast<int64_t>(content_->size()); }
  arrow::Result<size_t> read_at(int64_t offset, std::span<std::byte> buffer) const override {
    const auto start = std::min(static_cast<size_t>(offset), content_->size());
    const size_t count = std::min(buffer.size(), content_->size() - start);
    if (count > 0) std::memcpy(buffer.data(), content_->data() + start, count);
    return count;
  }

 private:
  std::shared_ptr<const std::string> content_;
};

bool is_below(const std::string& name, const std::string& folder) {
  return folder.empty() || name.starts_with(folder + "/");
}

}  // namespace

Location MemoryStorage::location(const std::string& name) const {
  return name.empty() ? "memory" : "memory/" + name;
}

arrow::Status MemoryStorage::write(const std::string& name, std::string_view content) {
  ARROW_RETURN_NOT_OK(check_name(name));
  const std::lock_guard lock(mutex_);
  files_[name] = std::make_shared<const std::string>(content);
  return arrow::Status::OK();
}

arrow::Result<FileSum> MemoryStorage::upload(const std::string& local_file, const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(const std::string content, read_file(local_file));
  ARROW_RETURN_NOT_OK(write(name, content));
  return FileSum{.size = static_cast<int64_t>(content.size()),
                 .checksum = checksum_of(std::as_bytes(std::span(content)))};
}

arrow::Status MemoryStorage::copy(const std::string& from, const std::string& to) {
  ARROW_RETURN_NOT_OK(check_name(from));
  ARROW_RETURN_NOT_OK(check_name(to));
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(from);
  if (found == files_.end()) return arrow::Status::KeyError("there is no file ", location(from));
  files_[to] = found->second;
  return arrow::Status::OK();
}

arrow::Result<std::unique_ptr<FileReader>> MemoryStorage::open(const std::string& name) const {
  ARROW_RETURN_NOT_OK(check_name(name));
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(name);
  if (found == files_.end()) return arrow::Status::KeyError("there is no file ", location(name));
  return std::make_unique<MemoryReader>(found->second);
}

arrow::Result<std::vector<FileSize>> MemoryStorage::list(const std::string& folder) const {
  if (!folder.empty()) ARROW_RETURN_NOT_OK(check_name(folder));
  const std::lock_guard lock(mutex_);
  std::vector<FileSize> files;
  for (const auto& [name, content] : files_) {
    if (is_below(name, folder)) files.push_back({name, static_cast<int64_t>(content->size())});
  }
  return files;
}

arrow::Status MemoryStorage::remove(const std::string& name) {
  ARROW_RETURN_NOT_OK(check_name(name));
  const std::lock_guard lock(mutex_);
  files_.erase(name);
  return arrow::Status::OK();
}

arrow::Status MemoryStorage::remove_below(const std::string& folder) {
  ARROW_RETURN_NOT_OK(check_name(folder));
  const std::lock_guard lock(mutex_);
  std::erase_if(files_, [&](const auto& file) { return is_below(file.first, folder); });
  return arrow::Status::OK();
}

}  // namespace paceline::storage
