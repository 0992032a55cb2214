#include "paceline/storage/storage.h"

#include <cstdlib>

#include "paceline/storage/local/local_storage.h"
#include "paceline/storage/location.h"
#include "paceline/storage/objects/arrow_storage.h"
#include "paceline/storage/objects/retrying_storage.h"

namespace paceline::storage {
namespace {

RetryPolicy policy_of_environment() {
  RetryPolicy policy;
  const char* text = std::getenv("PACELINE_STORAGE_RETRY_S");
  const double seconds = text == nullptr ? -1 : std::strtod(text, nullptr);
  if (seconds > 0) policy.budget = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  return policy;
}

}  // namespace

arrow::Result<std::shared_ptr<Storage>> open_storage(const std::string& location) {
  if (!is_uri(location)) return std::make_shared<LocalStorage>(location);
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<Storage> objects, open_object_storage(location));
  return with_retries(std::move(objects));
}

std::shared_ptr<Storage> with_retries(std::shared_ptr<Storage> objects) {
  return std::make_shared<RetryingStorage>(std::move(objects), policy_of_environment());
}

arrow::Result<std::string> read_whole(const Storage& storage, const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(const auto file, storage.open(name));
  std::string content(static_cast<size_t>(file->size()), '\0');
  ARROW_ASSIGN_OR_RAISE(const size_t size, file->read_at(0, std::as_writable_bytes(std::span(content))));
  content.resize(size);
  return content;
}

arrow::Status check_name(const std::string& name) {
  size_t start = 0;
  while (start <= name.size()) {
    const size_t end = std::min(name.find('/', start), name.size());
    const std::string_view part = std::string_view(name).substr(start, end - start);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != std::string_view::npos) {
      return arrow::Status::Invalid("\"", name, "\" is no name of a file in a storage: no part of it can be empty, ",
                                    "\".\" or \"..\"");
    }
    start = end + 1;
  }
  return arrow::Status::OK();
}

}  // namespace paceline::storage
