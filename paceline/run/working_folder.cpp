#include "paceline/run/working_folder.h"

#include <cstdlib>
#include <filesystem>

#include "paceline/core/run_layout.h"
#include "paceline/core/state_directory.h"
#include "paceline/run/journal.h"
#include "paceline/storage/checksum.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/objects/file_mirror.h"

namespace paceline::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWorking = "/working/";

// Which controller wrote a journal's last line; 0 for none.
int64_t last_epoch(const std::string& journal) {
  constexpr std::string_view kMember = "\"epoch\":";
  const size_t found = journal.rfind(kMember);
  return found == std::string::npos ? 0 : std::strtoll(journal.c_str() + found + kMember.size(), nullptr, 10);
}

}  // namespace

arrow::Result<std::string> working_folder(const storage::Location& location) {
  ARROW_ASSIGN_OR_RAISE(const std::string state, state_directory());
  const std::string hash = storage::checksum_of(std::as_bytes(std::span(location.text()))).substr(0, 12);
  return state + kWorking + storage::last_part(location) + "_" + hash;
}

arrow::Result<std::string> make_working_folder(const storage::Location& location) {
  ARROW_ASSIGN_OR_RAISE(std::string folder, working_folder(location));
  ARROW_RETURN_NOT_OK(storage::make_folders(folder));
  ARROW_RETURN_NOT_OK(storage::write_atomically(folder + "/" + run_layout::kLocation, location.text()));
  return folder;
}

storage::Location run_location(const std::string& folder) {
  if (folder.find(kWorking) == std::string::npos) return folder;
  const auto state = state_directory();
  if (!state.ok() || !folder.starts_with(*state + kWorking)) return folder;
  return storage::read_file(folder + "/" + run_layout::kLocation).ValueOr(folder);
}

bool is_reader_copy(const std::string& folder) {
  std::error_code error;
  return fs::exists(folder + "/" + run_layout::kCopyMark, error);
}

arrow::Status mark_as_reader_copy(const std::string& folder) {
  return storage::write_atomically(folder + "/" + run_layout::kCopyMark, "");
}

arrow::Status mark_as_drivers(const std::string& folder) {
  return storage::remove_all(folder + "/" + run_layout::kCopyMark);
}

bool is_drivers_own(const std::string& folder, const std::string& journal, std::optional<bool> held_last) {
  const auto own = storage::read_file(journal_path(folder));
  if (!own.ok() || is_reader_copy(folder)) return false;
  if (own->starts_with(journal)) return true;
  if (journal.starts_with(*own)) return false;
  return held_last.value_or(last_epoch(*own) > last_epoch(journal));
}

std::vector<std::string> files_of_run(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().lexically_relative(folder).string();
    std::error_code gone;
    if (run_layout::is_of_this_machine(name)) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file(gone) && !storage::is_temporary_file(name)) {
      names.push_back(name);
    }
  }
  return names;
}

arrow::Status clear_working_folder(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!run_layout::is_of_this_machine(entry->path().filename().string())) {
      ARROW_RETURN_NOT_OK(storage::remove_all(entry->path().string()));
    }
  }
  if (error) return arrow::Status::IOError("reading folder ", folder, ": ", error.message());
  return arrow::Status::OK();
}

arrow::Status copy_records(const storage::Storage& run, const std::vector<storage::FileSize>& records,
                           const std::string& folder) {
  for (const auto& [name, size] : records) {
    const std::string path = folder + "/" + name;
    std::error_code error;
    if (fs::file_size(path, error) == static_cast<uintmax_t>(size) && !error) continue;
    ARROW_ASSIGN_OR_RAISE(const std::string content, storage::read_mirrored(run, name));
    ARROW_RETURN_NOT_OK(storage::make_folders(fs::path(path).parent_path().string()));
    ARROW_RETURN_NOT_OK(storage::write_atomically(path, content));
  }
  return arrow::Status::OK();
}

}  // namespace paceline::run
