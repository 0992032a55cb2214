#include "paceline/track/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "paceline/core/posix/locale.h"
#include "paceline/track/character_width.h"
#include "paceline/track/status_line.h"

namespace paceline::track {
namespace {

using namespace std::chrono_literals;

constexpr Duration kDrawInterval = 100ms;
constexpr Duration kLineInterval = 2s;
constexpr Duration kUnknownTotalInterval = 10s;
constexpr Duration kBarInterval = 5s;

bool environment_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

const char* prefix_of(LogLevel level) {
  return level == LogLevel::error ? "error: " : level == LogLevel::warning ? "warning: " : "";
}

std::vector<std::string> rows_of(const std::string& bar) {
  std::vector<std::string> rows;
  std::istringstream text(bar);
  for (std::string row; std::getline(text, row);) rows.push_back(row);
  return rows;
}

// When and what a log shows of progress and metrics.
class PlainPace {
 public:
  // Whether this step is worth a line: the next tenth of its label, and none just before.
  bool is_due(const StepProgress& progress, Time now) {
    const int64_t tenth = progress.total > 0 ? 10 * progress.done / progress.total : 0;
    const bool is_next = progress.label != label_ || tenth > tenth_ || progress.total <= 0;
    if (!is_next || !is_due(progress_time_, progress.total > 0 ? kLineInterval : kUnknownTotalInterval, now))
      return false;
    label_ = progress.label;
    tenth_ = tenth;
    return true;
  }
  // Whether what a bar shows is worth a line: none for those that are done soon.
  bool is_bar_due(bool has_bar, Time now) {
    if (!has_bar || !bar_time_) bar_time_ = has_bar ? std::optional(now) : std::nullopt;
    return has_bar && is_due(bar_time_, kBarInterval, now);
  }
  bool are_metrics_due(Time now) { return is_due(metrics_time_, kLineInterval, now); }

 private:
  static bool is_due(std::optional<Time>& last, Duration interval, Time now) {
    if (last && now - *last < interval) return false;
    last = now;
    return true;
  }

  std::string label_;
  int64_t tenth_ = 0;
  std::optional<Time> progress_time_;
  std::optional<Time> metrics_time_;
  std::optional<Time> bar_time_;  // of the last line, or of the bar's beginning; none: there is no bar
};

class PlainTerminal final : public Terminal {
 public:
  PlainTerminal(TextSink out, const Clock* clock, bool is_terminal)
      : out_(std::move(out)), clock_(clock), is_terminal_(is_terminal) {}

  void log(LogLevel level, const std::string& line) override { write(prefix_of(level) + line); }
  void output(const std::string& who, const std::string& line) override {
    write("(" + who + ") " + (is_terminal_ ? without_control(line) : line));
  }
  void bar(const std::string& who, const std::string& text) override {
    const std::lock_guard lock(mutex_);
    if (!pace_.is_bar_due(!text.empty(), clock_->now())) return;
    for (const std::string& row : rows_of(text)) write_locked("(" + who + ") " + without_control(row));
  }
  void state(const std::string&) override {}
  void workers(int64_t, int64_t) override {}
  void stragglers(const std::string&) override {}
  void progress(const std::string& label, int64_t done, int64_t total, double rate) override {
    const std::lock_guard lock(mutex_);
    const StepProgress progress{.label = label, .done = done, .total = total, .rate = rate};
    if (pace_.is_due(progress, clock_->now())) write_locked(progress_text(progress));
  }
  void metrics(const Json& metrics) override {
    const std::lock_guard lock(mutex_);
    held_back_ = metrics_text(metrics);
    if (pace_.are_metrics_due(clock_->now())) write_metrics();
  }
  void checkpoint(const std::string&) override {}
  void finish() override {
    const std::lock_guard lock(mutex_);
    write_metrics();
  }

 private:
  void write(const std::string& line) {
    const std::lock_guard lock(mutex_);
    write_locked(line);
  }
  void write_locked(const std::string& line) { out_(line + "\n"); }
  void write_metrics() {
    if (!held_back_.empty()) write_locked("metrics: " + held_back_);
    held_back_.clear();
  }

  std::mutex mutex_;
  const TextSink out_;
  const Clock* clock_;
  const bool is_terminal_;
  PlainPace pace_;
  std::string held_back_;  // the last metrics, not yet shown
};

class QuietTerminal final : public Terminal {
 public:
  explicit QuietTerminal(std::unique_ptr<Terminal> terminal) : terminal_(std::move(terminal)) {}

  void log(LogLevel level, const std::string& line) override {
    if (level == LogLevel::warning || level == LogLevel::error) terminal_->log(level, line);
  }
  void output(const std::string& who, const std::string& line) override { terminal_->output(who, line); }
  void bar(const std::string& who, const std::string& text) override { terminal_->bar(who, text); }
  void state(const std::string&) override {}
  void workers(int64_t, int64_t) override {}
  void stragglers(const std::string&) override {}
  void progress(const std::string&, int64_t, int64_t, double) override {}
  void metrics(const Json&) override {}
  void checkpoint(const std::string&) override {}
  void finish() override {}

 private:
  std::unique_ptr<Terminal> terminal_;
};

class LiveTerminal final : public Terminal {
 public:
  LiveTerminal(std::FILE* out, const Clock* clock)
      : out_(out), clock_(clock), style_{.unicode = locale_has_utf8(), .colour = !environment_set("NO_COLOR")} {}
  ~LiveTerminal() override { finish(); }

  void log(LogLevel level, const std::string& line) override {
    const char* colour = level == LogLevel::error ? "\x1b[1;31m" : level == LogLevel::warning ? "\x1b[33m" : "";
    write(*colour == '\0' ? line : coloured(colour, prefix_of(level)) + line);
  }
  void output(const std::string& who, const std::string& line) override {
    write(coloured("\x1b[36m", "(" + who + ")") + " " + without_control(line));
  }
  void bar(const std::string&, const std::string& text) override {
    change(text.empty(), [&] {
      status_.bars.clear();
      for (const std::string& row : rows_of(text)) status_.bars.push_back(without_control(row, Colours::dropped));
    });
  }
  void state(const std::string& state) override {
    change(true, [&] { status_.state = state; });
  }
  void workers(int64_t ready, int64_t workers) override {
    change(ready == workers, [&] {
      status_.ready = ready;
      status_.workers = workers;
    });
  }
  void stragglers(const std::string& text) override {
    change(true, [&] { status_.stragglers = text; });
  }
  void progress(const std::string& label, int64_t done, int64_t total, double rate) override {
    change(total > 0 && done >= total,
           [&] { status_.progress = {.label = label, .done = done, .total = total, .rate = rate}; });
  }
  void metrics(const Json& metrics) override {
    change(false, [&] { status_.metrics = metrics; });
  }
  void checkpoint(const std::string& name) override {
    change(true, [&] { status_.checkpoint = name; });
  }
  void finish() override {
    const std::lock_guard lock(mutex_);
    if (!finished_) put(erase());
    finished_ = true;
  }

 private:
  std::string coloured(const char* colour, const std::string& text) const {
    return style_.colour ? colour + text + "\x1b[0m" : text;
  }
  void write(const std::string& line) {
    const std::lock_guard lock(mutex_);
    if (finished_) return put(line + "\n");
    redraw(line + "\n");
  }
  // Draws now if `important`, else when the last drawing is long enough ago.
  template <class Change>
  void change(bool important, Change apply) {
    const std::lock_guard lock(mutex_);
    apply();
    if (finished_ || (!important && drawn_ && clock_->now() - *drawn_ < kDrawInterval)) return;
    drawn_ = clock_->now();
    redraw();
  }
  // `lines` above the live rows. One write for erasing and drawing: they do not flicker.
  void redraw(const std::string& lines = "") {
    std::string text = erase();
    text += lines;
    text += live_rows();
    put(text);
  }
  // What takes the live rows away; the cursor is in the last of them.
  std::string erase() {
    const size_t above = std::exchange(rows_above_, 0);
    return above == 0 ? "\r\x1b[K" : "\r\x1b[" + std::to_string(above) + "A\x1b[J";
  }
  std::string live_rows() {
    winsize size{};
    const bool is_known = ::ioctl(::fileno(out_), TIOCGWINSZ, &size) == 0;
    style_.columns = is_known && size.ws_col > 0 ? size.ws_col : LineStyle().columns;
    style_.rows = is_known && size.ws_row > 0 ? size.ws_row : LineStyle().rows;
    const std::vector<std::string> rows = status_rows(status_, style_);
    rows_above_ = rows.size() - 1;
    std::string text;
    for (size_t at = 0; at < rows.size(); ++at) text.append(at == 0 ? "" : "\n").append(rows[at]);
    return text;
  }
  void put(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), out_);
    std::fflush(out_);
  }

  std::mutex mutex_;
  std::FILE* out_;
  const Clock* clock_;
  LineStyle style_;
  RunStatus status_;
  std::optional<Time> drawn_;
  size_t rows_above_ = 0;  // of those that are drawn, above the cursor's
  bool finished_ = false;
};

const Clock* or_systems(const Clock* clock) {
  static const SystemClock kSystemClock;
  return clock == nullptr ? &kSystemClock : clock;
}

std::unique_ptr<Terminal> make_plain(TextSink out, const Clock* clock, bool quiet, bool is_terminal) {
  auto plain = std::make_unique<PlainTerminal>(std::move(out), or_systems(clock), is_terminal);
  if (quiet) return std::make_unique<QuietTerminal>(std::move(plain));
  return plain;
}

}  // namespace

std::unique_ptr<Terminal> make_terminal(std::FILE* out, const Clock* clock, bool quiet) {
  const bool is_terminal = ::isatty(::fileno(out)) == 1;
  const char* type = std::getenv("TERM");
  const bool can_draw = is_terminal && type != nullptr && std::string_view(type) != "dumb";
  if (can_draw && !quiet) return std::make_unique<LiveTerminal>(out, or_systems(clock));
  const auto write = [out](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), out);
    std::fflush(out);
  };
  return make_plain(write, clock, quiet, is_terminal);
}

std::unique_ptr<Terminal> make_terminal(TextSink out, const Clock* clock, bool quiet) {
  return make_plain(std::move(out), clock, quiet, /*is_terminal=*/false);
}

}  // namespace paceline::track
