// Blocks that are made once and kept, in memory or on a local disk.
//
// The rows are those of the first epoch in every epoch: what steps before do by chance is drawn once, so that it does
// not depend on what is in the cache. Blocks are kept until they take as many bytes as they may; those that find no
// room are made anew each time. (Whoever reads all blocks in turn would find none of them in a cache that drops the
// oldest.)
//
// On a disk a block is a file, Arrow's IPC stream with a checksum of it and its place behind, in a folder that is named
// by the source's fingerprint, for its user alone. Files are written under another name and renamed, so several
// processes may share a folder. A file that is damaged, or that of another block, is made anew. Where there is no room,
// folders of other sources go, the one that was opened longest ago first, unless they are in use. The path may be a
// folder that has other things: none of them are counted or removed (cache_folder_internal.h).
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "paceline/data/source/source.h"

namespace paceline::data {

struct CacheOptions {
  /// Of all blocks that are kept. nullopt: on a disk as many as there are; in memory half of the budget of whoever
  /// reads (memory/ledger.h), in which they count. A number for memory is allowed beyond the budget.
  std::optional<int64_t> bytes = std::nullopt;
  std::string path;      ///< of a local folder, made if need be; empty for memory
  uint64_t version = 0;  ///< of what the fingerprint does not say, such as a function's code
};

/// IOError where the folder cannot be made. Any thread may read; a failure to write is none to read: the block is then
/// not kept. A cache on a disk that is full says so once, on standard error.
arrow::Result<std::shared_ptr<const Source>> cached(std::shared_ptr<const Source> source, const CacheOptions& options);

}  // namespace paceline::data
