#include "paceline/track/tracker/tracker_feed.h"

#include <filesystem>
#include <optional>
#include <random>

#include "paceline/core/record.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/local/line_reader.h"
#include "paceline/track/metrics_history.h"

namespace paceline::track {

// How far a tracker has come: bytes of the history, and what it remembers.
#define PACELINE_TRACKER_POSITION_FIELDS(FIELD) \
  FIELD(int64_t, history_bytes, 0)              \
  FIELD(Json, memory, nullptr)
PACELINE_RECORD(TrackerPosition, PACELINE_TRACKER_POSITION_FIELDS);

namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirstDelay = 500ms;
constexpr std::chrono::milliseconds kLongestDelay = 30s;
// At the end there is no time for a server that is away.
constexpr int kTriesAtEnd = 3;
// How far a tracker has come is noted so often; a crash repeats at most this.
constexpr std::chrono::seconds kNoteInterval{10};
// What a call has to return within once it is abandoned.
constexpr std::chrono::seconds kAbandonPatience{2};

TrackerPosition read_position(const std::string& path) {
  const auto text = storage::read_file(path);
  if (!text.ok()) return {};  // the first start of the run, or of the tracker
  try {
    return decode_json(*text).ValueOr(Json::object()).get<TrackerPosition>();
  } catch (const Json::exception&) {
    return {};
  }
}

}  // namespace

// What the thread works with; it may outlive the feed.
struct TrackerFeed::Desk {
  // Stands behind byte `at` of the history.
  struct Mark {
    int64_t at = 0;
    std::variant<TrackedAttempt, TrackedEnd> what;
  };

  void work(const Maker& make);
  arrow::Status serve();
  arrow::Status hand_over(int64_t end);
  arrow::Status tell(const Mark& mark);
  arrow::Status insist(const std::function<arrow::Status()>& call);
  bool pause(int failures);
  arrow::Status note_position(bool now);
  void say(LogLevel level, const std::string& line);

  std::string name;
  TrackerOptions options;
  std::string position_path;

  std::mutex mutex;
  std::condition_variable changed;
  Log* log = nullptr;  // null when nobody listens any more
  int64_t history_bytes = 0;
  int64_t taken_bytes = 0;
  std::deque<Mark> marks;
  bool ending = false;
  std::stop_source abandoned;

  // The thread's own.
  std::unique_ptr<Tracker> tracker;
  TrackerPosition position;
  std::optional<storage::LineReader> reader;
  std::optional<SteadyClock::time_point> noted;
  bool warned = false;
  std::minstd_rand random{std::random_device{}()};
};

TrackerFeed::TrackerFeed(std::string name, TrackerConfig config, TrackedRun run, int64_t history_bytes, Log& log,
                         Maker make)
    : desk_(std::make_shared<Desk>()) {
  desk_->name = std::move(name);
  desk_->position_path = run.folder + "/" + run_layout::kTrackerPositions + "/" + desk_->name + ".json";
  desk_->options = {.config = std::move(config), .run = std::move(run), .abandoned = desk_->abandoned.get_token()};
  desk_->history_bytes = history_bytes;
  desk_->log = &log;
  thread_ = BackgroundThread([desk = desk_, make = std::move(make)] { desk->work(make); });
}

TrackerFeed::~TrackerFeed() {
  wait(SteadyClock::now());
}

void TrackerFeed::begin_attempt(const AttemptStart& start, int64_t at) {
  TrackedAttempt attempt = start.attempt;
  attempt.resume_step = step_of(desk_->options.config.step_metric, start.resume_metrics, attempt.resume_step);
  {
    const std::lock_guard lock(desk_->mutex);
    desk_->marks.push_back({at, attempt});
  }
  desk_->changed.notify_all();
}

void TrackerFeed::advance(int64_t history_bytes) {
  {
    const std::lock_guard lock(desk_->mutex);
    if (history_bytes == desk_->history_bytes) return;
    desk_->history_bytes = history_bytes;
  }
  desk_->changed.notify_all();
}

const std::string& TrackerFeed::name() const {
  return desk_->name;
}

int64_t TrackerFeed::bytes_behind() const {
  const std::lock_guard lock(desk_->mutex);
  return desk_->history_bytes - desk_->taken_bytes;
}

void TrackerFeed::finish(TrackedEnd end, int64_t history_bytes) {
  {
    const std::lock_guard lock(desk_->mutex);
    desk_->history_bytes = history_bytes;
    // What could not be written any more does not come.
    for (Desk::Mark& mark : desk_->marks) mark.at = std::min(mark.at, history_bytes);
    desk_->marks.push_back({history_bytes, std::move(end)});
    desk_->ending = true;
  }
  desk_->changed.notify_all();
}

bool TrackerFeed::wait(SteadyClock::time_point deadline) {
  const auto tell_end = [this] {
    const std::lock_guard lock(desk_->mutex);
    desk_->ending = true;
    desk_->changed.notify_all();
  };
  tell_end();
  if (!thread_.wait_until(deadline)) {
    desk_->abandoned.request_stop();  // may run a tracker's callback
    tell_end();
    // Several that hang hang together.
    deadline = std::max(deadline + kAbandonPatience, SteadyClock::now() + 100ms);
  }
  if (thread_.finish_by(deadline)) return true;
  const std::lock_guard lock(desk_->mutex);
  desk_->log->warning("tracker " + desk_->name +
                      " hangs and is given up; what it has not taken is handed over "
                      "when the run is continued");
  desk_->log = nullptr;
  return false;
}

void TrackerFeed::Desk::work(const Maker& make) {
  const arrow::Status served = [&]() -> arrow::Status {
    position = read_position(position_path);
    options.memory = position.memory;
    ARROW_RETURN_NOT_OK(storage::make_folders(std::filesystem::path(position_path).parent_path()));
    ARROW_ASSIGN_OR_RAISE(tracker, make(options));
    return serve();
  }();
  if (!served.ok()) {
    say(LogLevel::warning, "tracker " + name + " has not taken all: " + served.message() +
                               "; the rest is handed over when the run is continued");
  }
  if (tracker) (void)note_position(true);
}

// Until all is handed over and the run has ended.
arrow::Status TrackerFeed::Desk::serve() {
  while (!abandoned.stop_requested()) {
    std::optional<Mark> mark;
    int64_t end = 0;
    {
      std::unique_lock lock(mutex);
      taken_bytes = position.history_bytes;
      const auto next = [this] { return marks.empty() ? history_bytes : std::min(marks.front().at, history_bytes); };
      const auto is_due = [&] { return !marks.empty() && marks.front().at <= position.history_bytes; };
      changed.wait(lock, [&] { return ending || is_due() || next() > position.history_bytes; });
      end = next();
      if (is_due()) {
        mark = std::move(marks.front());
        marks.pop_front();
      } else if (end <= position.history_bytes) {
        return arrow::Status::OK();  // ending
      }
    }
    if (mark) {
      ARROW_RETURN_NOT_OK(insist([&] { return tell(*mark); }));
    } else {
      ARROW_RETURN_NOT_OK(hand_over(end));
    }
    // Where it cannot be noted the run's own history cannot be written either, which is said.
    [[maybe_unused]] const arrow::Status ignored = note_position(mark.has_value());
  }
  return arrow::Status::IOError("the run has ended before that");
}

arrow::Status TrackerFeed::Desk::hand_over(int64_t end) {
  if (!reader) reader.emplace(history_path(options.run.folder), position.history_bytes);
  const int64_t before = reader->offset();
  std::vector<TrackedRow> rows;
  const auto take = [&](std::string_view line) {
    if (!may_be_shown(line)) return arrow::Status::OK();
    const auto row = decode_history_line(line);
    const Json* metrics = row ? shown_metrics(*row) : nullptr;
    const bool is_checkpoints = row && row->rank == kWholeGroup && !row->checkpoint.empty();
    if (metrics == nullptr && !is_checkpoints) return arrow::Status::OK();
    rows.push_back({.step = step_of(options.config.step_metric, metrics ? *metrics : row->metrics, row->report),
                    .report = row->report,
                    .attempt = row->attempt,
                    .time = row->time,
                    .checkpoint = row->checkpoint,
                    .metrics = metrics ? flat_metrics(*metrics) : std::vector<std::pair<std::string, Json>>{}});
    return arrow::Status::OK();
  };
  ARROW_RETURN_NOT_OK(reader->read_some(take, end));
  if (!rows.empty()) ARROW_RETURN_NOT_OK(insist([&] { return tracker->write(rows); }));
  // A file that has become shorter under us has nothing more to give.
  position.history_bytes = reader->offset() == before ? end : reader->offset();
  return arrow::Status::OK();
}

arrow::Status TrackerFeed::Desk::tell(const Mark& mark) {
  if (const auto* attempt = std::get_if<TrackedAttempt>(&mark.what)) return tracker->begin_attempt(*attempt);
  return tracker->finish(std::get<TrackedEnd>(mark.what));
}

// Calls until it works; gives up on what will not pass, and when there is no more time.
arrow::Status TrackerFeed::Desk::insist(const std::function<arrow::Status()>& call) {
  int at_end = 0;
  for (int failures = 1;; ++failures) {
    const arrow::Status called = call();
    if (called.ok()) {
      if (failures > 1) say(LogLevel::info, "tracker " + name + " works again");
      warned &= failures == 1;
      return called;
    }
    if (!called.IsIOError()) return called;
    if (!std::exchange(warned, true)) {
      say(LogLevel::warning, "tracker " + name + " fails, training goes on and it is tried again: " + called.message());
    }
    if (pause(failures) && (++at_end == kTriesAtEnd || abandoned.stop_requested())) return called;
  }
}

// Waits before the next try; true when the run ends.
bool TrackerFeed::Desk::pause(int failures) {
  const auto longest =
      std::min<std::chrono::milliseconds>(kLongestDelay, kFirstDelay * (1 << std::min(failures - 1, 10)));
  const std::chrono::milliseconds delay(
      std::uniform_int_distribution<int64_t>(longest.count() / 2, longest.count())(random));
  std::unique_lock lock(mutex);
  if (ending) {
    if (!abandoned.stop_requested()) changed.wait_for(lock, kFirstDelay, [this] { return abandoned.stop_requested(); });
    return true;
  }
  changed.wait_for(lock, delay, [this] { return ending; });
  return ending;
}

arrow::Status TrackerFeed::Desk::note_position(bool now) {
  const auto time = SteadyClock::now();
  if (!now && noted && time - *noted < kNoteInterval) return arrow::Status::OK();
  noted = time;
  position.memory = tracker->memory();
  return storage::write_atomically(position_path, encode_json(position));
}

void TrackerFeed::Desk::say(LogLevel level, const std::string& line) {
  const std::lock_guard lock(mutex);
  if (log != nullptr) log->write(level, line);
}

}  // namespace paceline::track
