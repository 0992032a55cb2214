#include "paceline/track/metrics_history.h"

#include <string_view>

#include "paceline/core/json.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/line_reader.h"

namespace paceline::track {
namespace {

constexpr size_t kBufferBytes = 64 << 10;

}  // namespace

std::string history_path(const std::string& run_folder) {
  return run_folder + "/" + run_layout::kHistory;
}

std::optional<HistoryRow> decode_history_line(std::string_view line) {
  const auto json = decode_json(line);
  if (!json.ok() || !json->is_object()) return std::nullopt;
  try {
    return json->get<HistoryRow>();
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

arrow::Result<HistoryWriter> HistoryWriter::open(const std::string& run_folder) {
  ARROW_ASSIGN_OR_RAISE(AppendFile file, AppendFile::open(history_path(run_folder)));
  ARROW_RETURN_NOT_OK(file.cut_torn_line());
  return HistoryWriter(std::move(file));
}

const nlohmann::json& shown_metrics(const HistoryRow& row) {
  return row.reduced.is_null() ? row.metrics : row.reduced;
}

arrow::Status HistoryWriter::append(const HistoryRow& row) {
  Json line = row;
  if (row.reduced.is_null()) line.erase("reduced");
  buffer_ += encode_json(line);
  buffer_ += '\n';
  return buffer_.size() >= kBufferBytes ? flush() : arrow::Status::OK();
}

arrow::Status HistoryWriter::flush() {
  ARROW_RETURN_NOT_OK(file_.append(buffer_));
  buffer_.clear();
  return arrow::Status::OK();
}

arrow::Status visit_history(const std::string& run_folder, const std::function<void(const HistoryRow&)>& visit) {
  return storage::LineReader(history_path(run_folder)).read([&visit](std::string_view line) {
    if (const auto row = decode_history_line(line)) visit(*row);
    return arrow::Status::OK();
  });
}

arrow::Result<std::vector<HistoryRow>> read_history(const std::string& run_folder) {
  std::vector<HistoryRow> rows;
  ARROW_RETURN_NOT_OK(visit_history(run_folder, [&rows](const HistoryRow& row) { rows.push_back(row); }));
  return rows;
}

}  // namespace paceline::track
