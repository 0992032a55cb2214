#include "paceline/storage/storage.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "paceline/storage/local/local_storage.h"
#include "paceline/storage/objects/arrow_storage.h"
#include "paceline/storage/objects/retrying_storage.h"

namespace paceline::storage {
namespace {

constexpr const char* kBudgetVariable = "PACELINE_STORAGE_RETRY_S";
constexpr int64_t kLongestBudget = 1'000'000;  // seconds

arrow::Result<RetryPolicy> policy_of_environment() {
  RetryPolicy policy;
  const char* value = std::getenv(kBudgetVariable);
  if (value == nullptr) return policy;
  const std::string_view text(value);
  double seconds = 0;
  const auto [end, problem] = std::from_chars(text.begin(), text.end(), seconds);
  if (problem != std::errc() || end != text.end() || !(seconds > 0 && seconds <= static_cast<double>(kLongestBudget))) {
    return arrow::Status::Invalid("the environment variable ", kBudgetVariable, " is \"", text,
                                  "\"; allowed: seconds, more than 0 and at most ", kLongestBudget,
                                  "; or leave it out for ",
                                  std::chrono::duration_cast<std::chrono::seconds>(policy.budget).count());
  }
  policy.budget = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  return policy;
}

}  // namespace

arrow::Result<std::shared_ptr<Storage>> open_storage(const Location& location) {
  if (!location.is_uri()) return std::make_shared<LocalStorage>(location.text());
  ARROW_RETURN_NOT_OK(policy_of_environment().status());  // before the network is asked anything
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<Storage> objects, open_object_storage(location));
  return with_retries(std::move(objects));
}

arrow::Result<std::shared_ptr<Storage>> with_retries(std::shared_ptr<Storage> objects) {
  ARROW_ASSIGN_OR_RAISE(const RetryPolicy policy, policy_of_environment());
  return std::make_shared<RetryingStorage>(std::move(objects), policy);
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
