// Files of lines, cut into byte ranges without reading them.
//
// A line belongs to the range in which it begins. Who reads a range finds its first line himself, and reads the last
// one to its end, so nothing needs to be known of a file but its size. Lines end with "\n" or "\r\n".
#pragma once

#include <arrow/filesystem/type_fwd.h>
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "paceline/data/order/epoch_order.h"

namespace paceline::data {

/// What most sources of lines read at once: enough that an object store delivers it at full speed.
inline constexpr int64_t kLineChunkBytes = int64_t{8} << 20;
/// What is read of a file to learn what is in it.
inline constexpr int64_t kFirstBlockBytes = int64_t{1} << 20;

/// Bytes begin ≤ i < end of a file. `end` is INT64_MAX where it is the whole file, however long.
struct LineRange {
  int64_t file = 0;
  int64_t begin = 0;
  int64_t end = 0;
  bool is_first() const { return begin == 0; }
};

/// Ranges of `chunk_bytes` each. A file that is compressed is one; an empty file has none.
std::vector<LineRange> line_ranges(const std::vector<arrow::fs::FileInfo>& files, int64_t chunk_bytes);
/// The lines that begin in a range.
struct Lines {
  std::shared_ptr<arrow::Buffer> text;
  int64_t offset = 0;  ///< of the first in the file, decompressed
};
/// The lines that begin in the range, decompressed. The last may lack its "\n" where the file does.
arrow::Result<Lines> read_lines(arrow::fs::FileSystem& file_system, const arrow::fs::FileInfo& file,
                                const LineRange& range);
struct FirstLines {
  std::shared_ptr<arrow::Buffer> lines;
  bool is_all = false;  ///< the file has no others
};
/// The whole lines in the first `limit` bytes of a file, or of as many as have one.
arrow::Result<FirstLines> first_lines(arrow::fs::FileSystem& file_system, const arrow::fs::FileInfo& file,
                                      int64_t limit);
/// Sizes of ranges if all are like a sample of `sample_bytes`, which has so many rows of so many bytes. At least one
/// row each, since an order leaves out chunks that have none.
std::vector<ChunkSize> estimate_chunks(const std::vector<LineRange>& ranges,
                                       const std::vector<arrow::fs::FileInfo>& files, int64_t sample_bytes,
                                       int64_t rows, int64_t bytes);

/// What read_lines() gave, without the mark of UTF-8 that some programs put at the beginning of a file.
std::string_view text_of(const arrow::Buffer& lines, const LineRange& range);

}  // namespace paceline::data
