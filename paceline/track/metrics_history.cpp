#include "paceline/track/metrics_history.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "paceline/core/json.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/line_reader.h"

namespace paceline::track {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
constexpr size_t kBytesBetweenMarks = 256 << 10;

std::string encode_line(const HistoryRow& row) {
  Json line = row;
  if (row.reduced.is_null()) line.erase("reduced");
  if (!row.later) line.erase("later");
  if (row.checkpoint.empty()) line.erase("checkpoint");
  if (row.rank == kWholeGroup && row.metrics.empty()) line.erase("metrics");
  if (row.highest == 0) line.erase("highest");
  if (row.highest == 0) line.erase("settled");
  return encode_json(line) + '\n';
}

// Takes an integer from the front of `text`.
std::optional<int64_t> take_integer(std::string_view& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  const bool has_it = text.starts_with(prefix);
  if (has_it) text.remove_prefix(prefix.size());
  return has_it;
}

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

// The line's members stand in the order of their names: "rank" and, in the group's lines, "reduced", then "report" and
// "time". What does not end exactly so may be anything.
bool may_be_shown(std::string_view line) {
  const size_t found = line.rfind("\"rank\":");
  if (found == std::string_view::npos) return true;
  std::string_view rest = line.substr(found + 7);
  const auto rank = take_integer(rest);
  const bool is_a_ranks = rank && *rank > 0 && take_prefix(rest, ",\"report\":") && take_integer(rest) &&
                          take_prefix(rest, ",\"time\":") && rest.ends_with('}') &&
                          rest.find_first_not_of("0123456789.eE+-") == rest.size() - 1;
  return !is_a_ranks;
}

arrow::Result<HistoryEnd> read_history_end(const std::string& run_folder) {
  HistoryEnd end;
  ARROW_RETURN_NOT_OK(storage::read_lines_from_end(history_path(run_folder), [&end](std::string_view line) {
    ++end.lines_read;
    const auto row = decode_history_line(line);
    if (!row) return true;
    end.highest = std::max({end.highest, row->report, row->highest});
    end.last_time = std::max(end.last_time, row->time);
    if (!row->checkpoint.empty()) end.checkpoints.insert(row->report);
    end.settled = row->settled;
    return row->highest == 0;
  }));
  return end;
}

HistoryEncoder::HistoryEncoder(const HistoryEnd& end)
    : highest_(end.highest),
      settled_(end.checkpoints.empty() ? end.settled : std::max(end.settled, *end.checkpoints.rbegin())),
      last_time_(end.last_time) {}

void HistoryEncoder::append(const HistoryRow& row, std::string& text) {
  highest_ = std::max(highest_, row.report);
  last_time_ = std::max(last_time_, row.time);
  if (!row.checkpoint.empty()) settled_ = std::max(settled_, row.report);
  const size_t before = text.size();
  text += encode_line(row);
  since_mark_ += text.size() - before;
  if (since_mark_ < kBytesBetweenMarks || highest_ == 0) return;
  since_mark_ = 0;
  text += encode_line({.report = highest_,
                       .attempt = row.attempt,
                       .rank = kWholeGroup,
                       .time = last_time_,
                       .highest = highest_,
                       .settled = settled_});
}

arrow::Result<AppendFile> open_history(const std::string& run_folder) {
  ARROW_ASSIGN_OR_RAISE(AppendFile file, AppendFile::open(history_path(run_folder)));
  ARROW_RETURN_NOT_OK(file.cut_torn_line());
  return file;
}

arrow::Result<HistoryWriter> HistoryWriter::open(const std::string& run_folder) {
  ARROW_ASSIGN_OR_RAISE(AppendFile file, open_history(run_folder));
  ARROW_ASSIGN_OR_RAISE(const HistoryEnd end, read_history_end(run_folder));
  return HistoryWriter(std::move(file), end);
}

const nlohmann::json* shown_metrics(const HistoryRow& row) {
  if (row.rank != 0 && row.rank != kWholeGroup) return nullptr;
  if (!row.reduced.is_null()) return &row.reduced;
  return row.rank == 0 && !row.later ? &row.metrics : nullptr;
}

arrow::Status HistoryWriter::append(const HistoryRow& row) {
  encoder_.append(row, buffer_);
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
    const auto row = decode_history_line(line);
    if (row && row->highest == 0) visit(*row);
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
