#include "paceline/track/history.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <sstream>

#include "paceline/core/json.h"
#include "paceline/storage/local.h"

namespace paceline::track {
namespace {

constexpr size_t kBufferBytes = 64 << 10;

// Nothing for a damaged line: it costs its row, not the history.
std::optional<HistoryRow> decode_row(const std::string& line) {
  const auto json = decode_json(line);
  if (!json.ok() || !json->is_object()) return std::nullopt;
  try {
    return json->get<HistoryRow>();
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::string path_of(const std::string& run_folder) {
  return run_folder + "/metrics.jsonl";
}

}  // namespace

arrow::Result<HistoryWriter> HistoryWriter::open(const std::string& run_folder) {
  const std::string path = path_of(run_folder);
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) return errno_status("opening " + path);
  ARROW_ASSIGN_OR_RAISE(const std::string content, storage::read_file(path));
  const size_t whole = content.rfind('\n') + 1;  // npos + 1 is 0
  if (whole != content.size() && ::ftruncate(file.get(), static_cast<off_t>(whole)) != 0) {
    return errno_status("cutting the torn last line off " + path);
  }
  return HistoryWriter(std::move(file), path);
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
  while (!buffer_.empty()) {
    const ssize_t written = ::write(file_.get(), buffer_.data(), buffer_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_status("writing " + path_);
    buffer_.erase(0, static_cast<size_t>(written));
  }
  return arrow::Status::OK();
}

arrow::Result<std::vector<HistoryRow>> read_history(const std::string& run_folder) {
  std::vector<HistoryRow> rows;
  const std::string path = path_of(run_folder);
  if (!std::filesystem::exists(path)) return rows;
  ARROW_ASSIGN_OR_RAISE(const std::string content, storage::read_file(path));
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line) && !lines.eof();) {  // at the end without a newline: torn
    if (auto row = decode_row(line)) rows.push_back(*std::move(row));
  }
  return rows;
}

}  // namespace paceline::track
