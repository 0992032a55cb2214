// FileMirror: copies files that grow or are replaced from a local folder to a storage, in the background.
//
// A file `logs/a.log` becomes the segments `records/logs/a.log/000000`, …, of 1 MiB each but the last, which alone is
// written again when the file has grown. A file that was cut or replaced is copied anew from there; one that was
// deleted is deleted there, unless all are gone. Of files that take turns a round copies kInTurn at most, those first
// that have waited longest: a thousand logs that grow all the time cost no thousand requests a round. Reading puts the
// segments together.
//
// A writer before this one, which was taken for dead, may have sent a segment that arrives late: of each file the one
// that was its last when this mirror began, or the next, since it waits for each before it sends another. The mirror
// looks for what does not fit and writes it again, and those two always.
//
// Threading: a thread of its own; push() from any. Errors of the storage are tried again with the
// next round; finish() gives the last.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/posix/thread.h"
#include "paceline/storage/storage.h"

namespace paceline::storage {

struct FileMirrorOptions {
  /// Rounds begin so often, and with push().
  std::chrono::milliseconds interval = std::chrono::seconds(5);
  /// Whether a file takes turns; none does by default. It never does in rounds that push() began.
  std::function<bool(const std::string& name)> takes_turns;
  /// How long a file that takes turns rests once it was copied: of one that changes all the time, and is no loss. None
  /// does by default; in the last round none rests.
  std::function<std::chrono::milliseconds(const std::string& name)> rests;
  /// Where something may arrive late: the mirror looks for it after so long, after twice that, and so on, and in the
  /// last round.
  std::optional<std::chrono::milliseconds> looks_again;
};

class FileMirror {
 public:
  /// So many files that take turns are copied in a round.
  static constexpr size_t kInTurn = 16;

  /// `files` gives the names, relative to `folder`, at each round.
  FileMirror(std::shared_ptr<Storage> to, std::string folder, std::function<std::vector<std::string>()> files,
             FileMirrorOptions options = {});
  FileMirror(const FileMirror&) = delete;
  FileMirror& operator=(const FileMirror&) = delete;
  ~FileMirror();

  /// Begins a round now, for what must not be lost. Does not wait.
  void push();
  /// A last round, of all files; IOError when it fails or takes longer than `patience`. Afterwards nothing is copied.
  arrow::Status finish(std::chrono::milliseconds patience);

 private:
  struct Desk;
  std::shared_ptr<Desk> desk_;  // outlives the mirror where the storage hangs
  BackgroundThread thread_;
};

/// Bytes of a segment.
inline constexpr int64_t kSegmentBytes = int64_t{1} << 20;

/// "records/journal.jsonl/000000": a segment of a mirrored file, from 0.
std::string mirrored_segment(const std::string& file, int64_t number);
/// Names of the mirrored files, with the bytes that have been copied of each.
arrow::Result<std::vector<FileSize>> mirrored_files(const Storage& storage);
/// The content of a mirrored file; KeyError when there is none of that name.
arrow::Result<std::string> read_mirrored(const Storage& storage, const std::string& name);

}  // namespace paceline::storage
