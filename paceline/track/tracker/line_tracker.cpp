#include "paceline/track/tracker/line_tracker_internal.h"

#include "paceline/storage/local/durable.h"
#include "paceline/track/tracker/built_in_internal.h"

namespace paceline::track {

arrow::Result<AppendFile> open_in(const std::string& folder, const std::string& name) {
  ARROW_RETURN_NOT_OK(storage::make_folders(folder));
  return AppendFile::open(folder + "/" + name);
}

arrow::Status LineTracker::write(std::span<const TrackedRow> rows) {
  ARROW_RETURN_NOT_OK(ensure_open());
  ARROW_RETURN_NOT_OK(prepare(rows, *file_));
  std::string text;
  int64_t last = last_report_;
  for (const TrackedRow& row : rows) {
    if (!row.is_checkpoint()) {
      if (row.report <= last) continue;
      last = row.report;
    }
    text += line_of(row);
  }
  ARROW_RETURN_NOT_OK(file_->append(text));
  last_report_ = last;
  return arrow::Status::OK();
}

arrow::Status LineTracker::ensure_open() {
  if (file_) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(AppendFile file, open_in(folder_of(options_), name_));
  ARROW_RETURN_NOT_OK(file.cut_torn_line());
  ARROW_ASSIGN_OR_RAISE(last_report_, begin(file));
  file_.emplace(std::move(file));
  return arrow::Status::OK();
}

}  // namespace paceline::track
