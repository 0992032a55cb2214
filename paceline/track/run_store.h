// RunStore: the user's index of runs, an SQLite database in the state directory (core/state_directory.h).
//
// Run folders are the truth: whatever is lost here `paceline index` reads from them again, so a store that cannot be
// used never stops a run. Many processes may write at once (each its own runs); readers wait for nobody and hold up
// nobody (write-ahead log; on a network file system, where that is unsafe, a rollback journal). Not thread-safe.
// Errors: Invalid when the store is damaged or of a later version; IOError when it is locked for longer than the
// patience, full, or cannot be read or written. Each names the file and what to do.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/track/run_record.h"

namespace paceline::track {

inline constexpr int kRunStoreVersion = 3;
/// How long a lock of another process is waited for, in milliseconds.
inline constexpr int kRunStorePatience = 10'000;

/// "STATE_DIRECTORY/runs.sqlite".
std::string run_store_path(const std::string& state_directory);
/// That of this user. Invalid where there is no state directory.
arrow::Result<std::string> user_run_store();

class RunStore {
 public:
  /// Opens the store for writing; makes it and its folder, or brings an earlier version up to date.
  static arrow::Result<RunStore> open(const std::string& path, int patience_ms = kRunStorePatience);
  /// Opens it for reading only. IOError when there is none.
  static arrow::Result<RunStore> open_for_reading(const std::string& path);
  RunStore(RunStore&&) noexcept;
  RunStore& operator=(RunStore&&) noexcept;
  ~RunStore();

  /// Puts a run, whole or not at all, in place of what is known of its path; of the same run's events only the new ones
  /// are added. What is known is kept if it is the same run's and tells more of its folder.
  arrow::Status put(const RunRecord& record);
  /// Forgets the run of that folder; none is not an error.
  arrow::Status remove(const std::string& path);

  /// Whether a visit decodes metrics, which of thousands of runs takes longer than all else.
  enum class Metrics { values, text };
  /// Calls `visit` with one run after the other, the last opened first, until it gives false; `metrics`: as they are
  /// shown (status_line.h), without Metrics::values the run has no others. A store on a network file system cannot be
  /// written meanwhile.
  arrow::Status visit(Metrics wanted, const std::function<bool(RunRow run, std::string metrics)>& visit) const;
  /// All runs, the last opened first.
  arrow::Result<std::vector<RunRow>> list() const;
  /// Names and paths of all runs, the last opened first: RunRow with these alone.
  arrow::Result<std::vector<RunRow>> names() const;
  /// All that is known of the run of that folder; nullopt for none.
  arrow::Result<std::optional<RunRecord>> find(const std::string& path) const;
  /// Looks at every page for damage: Invalid if there is any.
  arrow::Status check() const;

 private:
  struct Connection;
  explicit RunStore(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

/// Moves a store that cannot be used out of the way; gives where it is now.
arrow::Result<std::string> set_run_store_aside(const std::string& path);

}  // namespace paceline::track
