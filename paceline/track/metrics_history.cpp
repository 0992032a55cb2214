#include "paceline/track/metrics_history.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

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

const nlohmann::json* shown_metrics(const HistoryRow& row) {
  if (row.rank != 0 && row.rank != kWholeGroup) return nullptr;
  if (!row.reduced.is_null()) return &row.reduced;
  return row.rank == 0 && !row.later ? &row.metrics : nullptr;
}

arrow::Status HistoryWriter::append(const HistoryRow& row) {
  Json line = row;
  if (row.reduced.is_null()) line.erase("reduced");
  if (!row.later) line.erase("later");
  if (row.checkpoint.empty()) line.erase("checkpoint");
  if (row.rank == kWholeGroup && row.metrics.empty()) line.erase("metrics");
  buffer_ += encode_json(line);
  buffer_ += '\n';
  return buffer_.size() >= kBufferBytes ? flush() : arrow::Status::OK();
}

arrow::Status HistoryWriter::flush() {
  ARROW_RETURN_NOT_OK(file_.append(buffer_));
  buffer_.clear();
  return arrow::Status::OK();
}

arrow::Status HistoryWriter::sync() {
  ARROW_RETURN_NOT_OK(flush());
  return file_.sync();
}

arrow::Status visit_history(const std::string& run_folder, const std::function<void(const HistoryRow&)>& visit) {
  return storage::LineReader(history_path(run_folder)).read([&visit](std::string_view line) {
    if (const auto row = decode_history_line(line)) visit(*row);
    return arrow::Status::OK();
  });
}

arrow::Result<std::vector<HistoryRow>> read_history(const std::string& run_folder) {
  std::vector<HistoryRow> rows;
  std::map<int64_t, HistoryRow> groups;  // by report
  ARROW_RETURN_NOT_OK(visit_history(run_folder, [&](const HistoryRow& row) {
    if (row.rank != kWholeGroup) return rows.push_back(row);
    HistoryRow& group = groups[row.report];
    if (!row.checkpoint.empty()) group.checkpoint = row.checkpoint;
    if (!row.reduced.is_null()) group.reduced = row.reduced;
  }));
  std::ranges::stable_sort(rows, {}, [](const HistoryRow& row) { return std::pair(row.report, row.rank); });
  for (HistoryRow& row : rows) {
    const auto group = groups.find(row.report);
    if (group == groups.end()) continue;
    if (!group->second.checkpoint.empty()) row.checkpoint = group->second.checkpoint;
    if (row.rank == 0 && !group->second.reduced.is_null()) row.reduced = group->second.reduced;
  }
  return rows;
}

}  // namespace paceline::track
