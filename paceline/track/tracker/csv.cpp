// One line a report in metrics.csv (RFC 4180): step, report, attempt, time, checkpoint, then a column per metric. A
// metric that comes later gets a column at the end: the file is written anew with it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>

#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"
#include "paceline/track/tracker/built_in_internal.h"
#include "paceline/track/tracker/line_tracker_internal.h"

namespace paceline::track {
namespace {

using Fields = std::vector<std::string>;

const Fields& own_columns() {
  static const Fields columns = {"step", "report", "attempt", "time", "checkpoint"};
  return columns;
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string inside;
  for (const char byte : text) inside += byte == '"' ? "\"\"" : std::string(1, byte);
  return '"' + inside + '"';
}

std::string joined(const Fields& fields) {
  std::string line;
  for (const std::string& field : fields) line += (line.empty() ? "" : ",") + quoted(field);
  return line + "\n";
}

// Fields of a line; quoted ones may hold anything but, as we write them, no newline.
Fields fields_of(const std::string& line) {
  Fields fields(1);
  bool inside = false;
  for (size_t at = 0; at < line.size(); ++at) {
    const char byte = line[at];
    if (byte == '"' && inside && at + 1 < line.size() && line[at + 1] == '"') {
      fields.back() += line[++at];
    } else if (byte == '"') {
      inside = !inside;
    } else if (byte == ',' && !inside) {
      fields.emplace_back();
    } else {
      fields.back() += byte;
    }
  }
  return fields;
}

// A newline in a text would make two lines of a row for every tool that reads lines.
std::string cell(const Json& value) {
  if (value.is_null()) return "";
  std::string text = value.is_string() ? value.get<std::string>() : encode_json(value);
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const double number = value.get<double>();
    text = std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
  }
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string time_text(double seconds) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6f", seconds);
  return text;
}

class Csv final : public LineTracker {
 public:
  explicit Csv(TrackerOptions options) : LineTracker(std::move(options), run_layout::kCsv) {}

 private:
  arrow::Result<int64_t> begin(AppendFile& file) override {
    if (file.size() == 0) ARROW_RETURN_NOT_OK(file.append(joined(own_columns())));
    ARROW_RETURN_NOT_OK(read_header(file.path()));
    const auto is_report = [](std::string_view text) {
      const Fields fields = fields_of(std::string(text));
      const auto metrics = fields.begin() + static_cast<ptrdiff_t>(std::min(fields.size(), own_columns().size()));
      return metrics == fields.begin() || (metrics - 1)->empty() ||
             std::any_of(metrics, fields.end(), [](const std::string& field) { return !field.empty(); });
    };
    ARROW_ASSIGN_OR_RAISE(const std::string line, file.last_line(is_report));
    const Fields last = fields_of(line);
    return last.size() > 1 ? std::strtoll(last[1].c_str(), nullptr, 10) : 0;  // the header's is no number: 0
  }

  arrow::Status read_header(const std::string& path) {
    ARROW_ASSIGN_OR_RAISE(const std::string content, storage::read_file(path));
    std::istringstream lines(content);
    std::string header;
    std::getline(lines, header);
    const Fields names = fields_of(header);
    if (names.size() < own_columns().size() || !std::equal(own_columns().begin(), own_columns().end(), names.begin())) {
      return arrow::Status::Invalid(path,
                                    " is not a file that Paceline has written; move it away, or set "
                                    "TrackerConfig.path");
    }
    columns_.clear();
    for (const std::string& name : names) columns_.emplace(name, columns_.size());
    return arrow::Status::OK();
  }

  static std::string column_of(const std::string& metric) {
    const bool is_taken = std::ranges::find(own_columns(), metric) != own_columns().end();
    return is_taken ? "metrics/" + metric : metric;
  }

  // New metrics: the file is written anew, old lines with empty cells at their ends.
  arrow::Status prepare(std::span<const TrackedRow> rows, AppendFile& file) override {
    auto columns = columns_;
    for (const TrackedRow& row : rows) {
      for (const auto& [name, value] : row.metrics) columns.emplace(column_of(name), columns.size());
    }
    if (columns.size() == columns_.size()) return arrow::Status::OK();
    Fields header(columns.size());
    for (const auto& [name, place] : columns) header[place] = name;
    ARROW_ASSIGN_OR_RAISE(const std::string content, storage::read_file(file.path()));
    const std::string more(columns.size() - columns_.size(), ',');
    std::string text = joined(header);
    std::istringstream lines(content);
    std::string line;
    std::getline(lines, line);  // the header
    while (std::getline(lines, line)) text += line + more + "\n";
    ARROW_RETURN_NOT_OK(storage::write_atomically(file.path(), text));
    ARROW_ASSIGN_OR_RAISE(file, AppendFile::open(file.path()));
    columns_ = std::move(columns);
    return arrow::Status::OK();
  }

  std::string line_of(const TrackedRow& row) const override {
    Fields fields(columns_.size());
    fields[0] = std::to_string(row.step);
    fields[1] = std::to_string(row.report);
    fields[2] = std::to_string(row.attempt);
    fields[3] = time_text(row.time);
    fields[4] = row.checkpoint;
    for (const auto& [name, value] : row.metrics) fields[columns_.at(column_of(name))] = cell(value);
    return joined(fields);
  }

  std::map<std::string, size_t> columns_;
};

}  // namespace

std::unique_ptr<Tracker> make_csv(TrackerOptions options) {
  return std::make_unique<Csv>(std::move(options));
}

}  // namespace paceline::track
