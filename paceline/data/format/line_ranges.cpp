#include <arrow/buffer.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>

#include <algorithm>
#include <limits>

#include "paceline/data/file/file_access_internal.h"
#include "paceline/data/format/line_ranges_internal.h"

namespace paceline::data {
namespace {

constexpr int64_t kWhole = std::numeric_limits<int64_t>::max();
constexpr int64_t kLineEnd = int64_t{64} << 10;  // read beyond a range at once, for the end of its last line
constexpr int64_t kCompressionRatio = 4;         // of text, about

}  // namespace

std::vector<LineRange> line_ranges(const std::vector<arrow::fs::FileInfo>& files, int64_t chunk_bytes) {
  std::vector<LineRange> ranges;
  for (size_t i = 0; i < files.size(); ++i) {
    const int64_t size = files[i].size();
    const auto file = static_cast<int64_t>(i);
    if (is_compressed(files[i].path())) {
      ranges.push_back({.file = file, .begin = 0, .end = kWhole});
      continue;
    }
    for (int64_t begin = 0; begin < size; begin += chunk_bytes) {
      ranges.push_back({.file = file, .begin = begin, .end = std::min(begin + chunk_bytes, size)});
    }
  }
  return ranges;
}

arrow::Result<Lines> read_lines(arrow::fs::FileSystem& file_system, const arrow::fs::FileInfo& file,
                                const LineRange& range) {
  if (range.end == kWhole) {
    ARROW_ASSIGN_OR_RAISE(auto all, read_decompressed(file_system, file, kWhole));
    return Lines{.text = std::move(all)};
  }
  ARROW_ASSIGN_OR_RAISE(auto input, open_unchanged(file_system, file));
  // The byte before the range says whether a line begins with it.
  const int64_t from = range.begin == 0 ? 0 : range.begin - 1;
  int64_t until = std::min(range.end + kLineEnd, file.size());
  ARROW_ASSIGN_OR_RAISE(auto buffer, read_exactly(*input, from, until - from));
  size_t first = 0;
  if (range.begin > 0) {
    first = view_of(*buffer).substr(0, static_cast<size_t>(range.end - 1 - from)).find('\n');
    if (first == std::string_view::npos) return Lines{.text = arrow::SliceBuffer(buffer, 0, 0)};
    ++first;
  }
  size_t search = static_cast<size_t>(range.end - 1 - from);  // the last line may end with the range's last byte
  while (true) {
    const size_t end = view_of(*buffer).find('\n', search);
    if (end != std::string_view::npos || until == file.size()) {
      const size_t size = end == std::string_view::npos ? static_cast<size_t>(buffer->size()) : end + 1;
      return Lines{.text = arrow::SliceBuffer(buffer, static_cast<int64_t>(first), static_cast<int64_t>(size - first)),
                   .offset = from + static_cast<int64_t>(first)};
    }
    // A long line: twice as much each time, so that its bytes are not copied too often.
    search = static_cast<size_t>(buffer->size());
    const int64_t more = std::min(std::max<int64_t>(kLineEnd, buffer->size()), file.size() - until);
    ARROW_ASSIGN_OR_RAISE(const auto next, read_exactly(*input, until, more));
    ARROW_ASSIGN_OR_RAISE(buffer, arrow::ConcatenateBuffers({buffer, next}));
    until += more;
  }
}

arrow::Result<FirstLines> first_lines(arrow::fs::FileSystem& file_system, const arrow::fs::FileInfo& file,
                                      int64_t limit) {
  while (true) {
    ARROW_ASSIGN_OR_RAISE(auto buffer, read_decompressed(file_system, file, limit));
    if (buffer->size() < limit) return FirstLines{.lines = std::move(buffer), .is_all = true};
    const size_t end = view_of(*buffer).rfind('\n');
    if (end != std::string_view::npos) {
      return FirstLines{.lines = arrow::SliceBuffer(buffer, 0, static_cast<int64_t>(end) + 1)};
    }
    limit *= 2;
  }
}

std::vector<ChunkSize> estimate_chunks(const std::vector<LineRange>& ranges,
                                       const std::vector<arrow::fs::FileInfo>& files, int64_t sample_bytes,
                                       int64_t rows, int64_t bytes) {
  std::vector<ChunkSize> chunks;
  for (const LineRange& range : ranges) {
    const arrow::fs::FileInfo& file = files[static_cast<size_t>(range.file)];
    const int64_t ratio = is_compressed(file.path()) ? kCompressionRatio : 1;
    const auto text = static_cast<double>((std::min(range.end, file.size()) - range.begin) * ratio);
    const double samples = text / static_cast<double>(std::max<int64_t>(sample_bytes, 1));
    chunks.push_back({.rows = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(rows) * samples)),
                      .bytes = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(bytes) * samples)),
                      .file = range.file});
  }
  return chunks;
}

std::string_view text_of(const arrow::Buffer& lines, const LineRange& range) {
  std::string_view text = view_of(lines);
  if (range.is_first() && text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

}  // namespace paceline::data
