// LineTracker: what trackers share that keep a file with a line a report.
#pragma once

#include <optional>
#include <string>

#include "paceline/track/append_file.h"
#include "paceline/track/tracker/tracker.h"

namespace paceline::track {

/// Opens a file at its end, or makes it and its folder.
arrow::Result<AppendFile> open_in(const std::string& folder, const std::string& name);

/// A report's line is there once: what an earlier driver wrote before it was killed does not come again. A
/// checkpoint's may.
class LineTracker : public Tracker {
 public:
  LineTracker(TrackerOptions options, std::string name) : options_(std::move(options)), name_(std::move(name)) {}

  arrow::Status begin_attempt(const TrackedAttempt&) final { return ensure_open(); }
  arrow::Status write(std::span<const TrackedRow> rows) final;
  arrow::Status finish(const TrackedEnd&) final { return arrow::Status::OK(); }

 protected:
  /// Begins an empty file, or reads what it needs of one that ends with a whole line. Gives the last report of
  /// which it has the metrics, 0 for none.
  virtual arrow::Result<int64_t> begin(AppendFile& file) = 0;
  /// Makes the file ready for these rows.
  virtual arrow::Status prepare(std::span<const TrackedRow> rows, AppendFile& file) { return arrow::Status::OK(); }
  /// With its newline.
  virtual std::string line_of(const TrackedRow& row) const = 0;

 private:
  arrow::Status ensure_open();

  const TrackerOptions options_;
  const std::string name_;
  std::optional<AppendFile> file_;
  int64_t last_report_ = 0;
};

}  // namespace paceline::track
