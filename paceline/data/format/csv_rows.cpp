#include <arrow/buffer.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>

#include <algorithm>

#include "paceline/data/file/file_access_internal.h"
#include "paceline/data/format/csv_rows_internal.h"

namespace paceline::data {
namespace {

constexpr int64_t kRowEnd = int64_t{64} << 10;  // read beyond a range at once, for the end of its last row

}  // namespace

bool CsvPlace::ends_row(char byte, const arrow::csv::ParseOptions& options) {
  if (is_escaped_) {
    is_escaped_ = false;
  } else if (options.escaping && byte == options.escape_char) {
    is_escaped_ = true;
    if (in_ != In::quotes) in_ = In::field;
  } else if (options.quoting && byte == options.quote_char) {
    if (in_ == In::beginning || (in_ == In::end_of_quotes && options.double_quote)) {
      in_ = In::quotes;
    } else if (in_ == In::quotes) {
      in_ = In::end_of_quotes;
    }
  } else if (in_ != In::quotes) {
    in_ = byte == options.delimiter || byte == '\n' ? In::beginning : In::field;
    return byte == '\n';
  }
  return false;
}

arrow::Result<CsvPlace> CsvPlaces::place_of(const LineRange& range, int64_t range_bytes) {
  const auto number = static_cast<size_t>(range.begin / range_bytes);
  const std::lock_guard lock(known_->mutex);
  std::vector<CsvPlace>& places = known_->places;
  if (number < places.size()) return places[number];
  ARROW_ASSIGN_OR_RAISE(const auto input, open_unchanged(*file_system_, file_));
  while (places.size() <= number) {
    const auto begin = static_cast<int64_t>(places.size() - 1) * range_bytes;
    ARROW_ASSIGN_OR_RAISE(const auto buffer, read_exactly(*input, begin, range_bytes));
    CsvPlace place = places.back();
    for (const char byte : view_of(*buffer)) place.ends_row(byte, options_);
    places.push_back(place);
  }
  return places[number];
}

arrow::Result<Lines> CsvPlaces::rows_of(const LineRange& range, int64_t range_bytes) {
  ARROW_ASSIGN_OR_RAISE(CsvPlace place, place_of(range, range_bytes));
  ARROW_ASSIGN_OR_RAISE(const auto input, open_unchanged(*file_system_, file_));
  // The byte before the range says whether a row begins with it, unless it is in quotes.
  const int64_t from = std::max<int64_t>(range.begin - 1, 0);
  int64_t until = std::min(range.end + kRowEnd, file_.size());
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, read_exactly(*input, from, until - from));
  std::string_view text = view_of(*buffer);
  const auto end = static_cast<size_t>(range.end - from);
  size_t at = static_cast<size_t>(range.begin - from);
  size_t first = 0;
  if (range.begin > 0 && !(text[0] == '\n' && place.is_at_beginning())) {
    while (at < end && !place.ends_row(text[at], options_)) ++at;
    if (at + 1 >= end) return Lines{.text = arrow::SliceBuffer(buffer, 0, 0)};
    first = ++at;
  } else {
    first = at;
  }
  while (true) {
    for (; at < text.size(); ++at) {
      if (place.ends_row(text[at], options_) && at + 1 >= end) {
        return Lines{
            .text = arrow::SliceBuffer(buffer, static_cast<int64_t>(first), static_cast<int64_t>(at + 1 - first)),
            .offset = from + static_cast<int64_t>(first)};
      }
    }
    if (until == file_.size()) break;
    const int64_t more = std::min(std::max<int64_t>(kRowEnd, buffer->size()), file_.size() - until);
    ARROW_ASSIGN_OR_RAISE(const auto next, read_exactly(*input, until, more));
    ARROW_ASSIGN_OR_RAISE(buffer, arrow::ConcatenateBuffers({buffer, next}));
    text = view_of(*buffer);
    until += more;
  }
  return Lines{.text = arrow::SliceBuffer(buffer, static_cast<int64_t>(first)),
               .offset = from + static_cast<int64_t>(first)};
}

}  // namespace paceline::data
