#include "paceline/track/status_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <vector>

#include "paceline/track/character_width.h"

namespace paceline::track {
namespace {

constexpr int kBarWidth = 16;
constexpr int kEchoColumns = 2;  // "^C", which a terminal echoes behind the line, must not begin a new one

std::string print(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// A list shows tens of thousands; to_chars is several times as fast as printf and a JSON writer.
std::string number(const Json& value) {
  std::array<char, 32> text{};
  const auto end = value.is_number_float()
                       ? std::to_chars(text.begin(), text.end(), value.get<double>(), std::chars_format::general, 4)
                   : value.is_number_unsigned() ? std::to_chars(text.begin(), text.end(), value.get<uint64_t>())
                                                : std::to_chars(text.begin(), text.end(), value.get<int64_t>());
  return {text.begin(), end.ptr};
}

void add_metrics(const std::string& prefix, const Json& object, std::string& text) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      add_metrics(prefix + name + "/", value, text);
      continue;
    }
    if (value.is_null() || value.is_array()) continue;
    const std::string shown = value.is_string()    ? value.get<std::string>()
                              : value.is_boolean() ? value.dump()
                                                   : number(value);
    text.append(text.empty() ? "" : ", ").append(prefix).append(name).append(" ").append(shown);
  }
}

double share(const StepProgress& progress) {
  if (progress.total <= 0) return 0;
  return std::clamp(static_cast<double>(progress.done) / static_cast<double>(progress.total), 0.0, 1.0);
}

std::string rate_text(double rate) {
  if (rate < 1) return print(rate > 0.01 ? "%.1f s each" : "%.0f s each", 1 / rate);
  return print(rate < 100 ? "%.1f/s" : "%.0f/s", rate);
}

double seconds_left(const StepProgress& progress) {
  return static_cast<double>(std::max<int64_t>(0, progress.total - progress.done)) / progress.rate;
}

std::string bar(const StepProgress& progress, bool unicode) {
  const int full = static_cast<int>(share(progress) * kBarWidth);
  std::string text;
  for (int at = 0; at < kBarWidth; ++at) text += at < full ? (unicode ? "━" : "#") : (unicode ? "─" : "-");
  return text;
}

std::string live_progress(const StepProgress& progress, bool unicode) {
  std::ostringstream text;
  text << progress.label;
  if (progress.total > 0) text << " " << bar(progress, unicode);
  text << " " << progress.done;
  if (progress.total > 0) text << "/" << progress.total;
  if (progress.rate > 0) text << " " << rate_text(progress.rate);
  if (progress.rate > 0 && progress.total > 0) text << " " << duration_text(seconds_left(progress)) << " left";
  return text.str();
}

std::string workers_text(const RunStatus& status) {
  if (status.workers == 0) return "";
  const std::string some = status.ready == status.workers ? "" : std::to_string(status.ready) + "/";
  return some + std::to_string(status.workers) + (status.workers == 1 ? " worker" : " workers");
}

std::string shown(const std::string& text, bool unicode) {
  const std::string safe = printable(text);
  return unicode ? safe : in_ascii(safe);
}

// The first `width` columns; the last of them tells where something is missing.
std::string cut(const std::string& text, size_t width, bool unicode) {
  if (columns_of(text) <= width) return text;
  if (width == 0) return "";
  return text.substr(0, bytes_that_fit(text, width - 1)) + (unicode ? "…" : "~");
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "-";
  const auto whole = static_cast<long>(std::lround(seconds));
  char text[64];
  if (whole < 3600) {
    std::snprintf(text, sizeof text, "%ld:%02ld", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return text;
}

std::string metrics_text(const Json& metrics) {
  std::string text;
  if (metrics.is_object()) add_metrics("", metrics, text);
  return text;
}

std::string progress_text(const StepProgress& progress) {
  std::ostringstream text;
  text << progress.label << ": ";
  if (progress.total > 0) {
    text << static_cast<int>(100 * share(progress)) << " % (" << progress.done << "/" << progress.total << ")";
  } else {
    text << progress.done << " steps";
  }
  if (progress.rate > 0) text << ", " << rate_text(progress.rate);
  if (progress.rate > 0 && progress.total > progress.done)
    text << ", " << duration_text(seconds_left(progress)) << " left";
  return text.str();
}

std::string status_line(const RunStatus& status, const LineStyle& style) {
  std::vector<std::string> parts;
  if (const std::string workers = workers_text(status); !workers.empty()) parts.push_back(workers);
  if (!status.stragglers.empty()) parts.push_back(status.stragglers);
  if (status.bars.empty() && !status.progress.label.empty()) {
    parts.push_back(live_progress(status.progress, style.unicode));
  }
  if (const std::string metrics = metrics_text(status.metrics); !metrics.empty()) parts.push_back(metrics);
  if (!status.checkpoint.empty()) parts.push_back(status.checkpoint);
  std::string rest;
  for (const std::string& part : parts) rest += (style.unicode ? " · " : " | ") + part;

  const auto width = static_cast<size_t>(std::max(1, style.columns - kEchoColumns - 1));
  const std::string state = shown(status.state, style.unicode);
  std::string line = cut(state + shown(rest, style.unicode), width, style.unicode);
  if (!style.colour || !line.starts_with(state)) return line;
  return "\x1b[1;32m" + state + "\x1b[0m" + line.substr(state.size());
}

std::vector<std::string> status_rows(const RunStatus& status, const LineStyle& style) {
  const auto columns = static_cast<size_t>(std::max(1, style.columns));
  const auto most = static_cast<size_t>(std::max(0, style.rows - 2));
  std::vector<std::string> rows;
  for (size_t at = 0; at < std::min(status.bars.size(), most); ++at) {
    rows.push_back(cut(shown(status.bars[at], style.unicode), columns, style.unicode));
  }
  rows.push_back(status_line(status, style));
  return rows;
}

}  // namespace paceline::track
