#include "paceline/data/format/text_source.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/builder.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/utf8.h>

#include <algorithm>

#include "paceline/data/file/file_access_internal.h"
#include "paceline/data/format/line_source_internal.h"

namespace paceline::data {
namespace {

class TextSource : public LineSource {
 public:
  TextSource(std::shared_ptr<arrow::fs::FileSystem> file_system, std::vector<arrow::fs::FileInfo> files,
             const TextOptions& options)
      : LineSource("text", std::move(file_system), std::move(files), options.bad_rows), options_(options) {}

  arrow::Status open() {
    ARROW_ASSIGN_OR_RAISE(const FirstLines first, sample());
    const int64_t bytes = first.lines->size();
    const int64_t rows = std::ranges::count(view_of(*first.lines), '\n');
    return cut(options_.chunk_bytes,
               {.text_bytes = bytes,
                .rows = rows,
                .bytes = bytes,
                .schema = arrow::schema({arrow::field("text", arrow::utf8())})},
               options_.drop_empty_lines);
  }

 protected:
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> parse(const Lines& lines, const LineRange& range) const override {
    std::string_view text = text_of(*lines.text, range);
    if (!arrow::util::ValidateUTF8(text)) {
      return arrow::Status::Invalid("it is not UTF-8; convert it, or read it as binary");
    }
    arrow::StringBuilder builder;
    ARROW_RETURN_NOT_OK(builder.ReserveData(static_cast<int64_t>(text.size())));
    while (!text.empty()) {
      std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(line.size() + 1, text.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty() && options_.drop_empty_lines) continue;
      ARROW_RETURN_NOT_OK(builder.Append(line));
    }
    ARROW_ASSIGN_OR_RAISE(auto array, builder.Finish());
    const int64_t rows = array->length();
    return arrow::RecordBatch::Make(schema_, rows, {std::move(array)});
  }

 private:
  const TextOptions options_;
};

}  // namespace

arrow::Result<std::unique_ptr<Source>> text_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                   std::vector<arrow::fs::FileInfo> files, const TextOptions& options) {
  arrow::util::InitializeUTF8();
  auto source = std::make_unique<TextSource>(std::move(file_system), std::move(files), options);
  ARROW_RETURN_NOT_OK(source->open());
  return source;
}

}  // namespace paceline::data
