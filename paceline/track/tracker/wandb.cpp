// Weights & Biases as the files that `wandb sync` uploads: nothing of ours talks to a server. Each driver writes
// wandb/offline-run-TIME-ID/run-ID.wandb, all with one ID, so that they become one run there. Format: LevelDB's log
// (doc/log_format.md, with CRC-32 for its CRC-32C) of protocol buffers (wandb/proto/wandb_internal.proto).
#include <boost/crc.hpp>
#include <cmath>
#include <ctime>
#include <map>
#include <random>

#include "paceline/core/posix/host_name.h"
#include "paceline/core/run_layout.h"
#include "paceline/track/tracker/built_in_internal.h"
#include "paceline/track/tracker/line_tracker_internal.h"
#include "paceline/track/tracker/protobuf_writer.h"

namespace paceline::track {
namespace {

constexpr int64_t kBlockBytes = 32 << 10;
constexpr int64_t kRecordHeaderBytes = 7;
constexpr std::string_view kFileHeader(":W&B\xE1\xBE\x00", 7);

enum class Part : char { whole = 1, first, middle, last };

// A part of a record: checksum of kind and bytes, length, kind, bytes.
std::string framed(Part part, std::string_view bytes) {
  boost::crc_32_type crc;
  crc.process_byte(static_cast<unsigned char>(part));
  crc.process_bytes(bytes.data(), bytes.size());
  std::string frame;
  for (int shift = 0; shift < 32; shift += 8) frame += static_cast<char>(crc.checksum() >> shift);
  frame += static_cast<char>(bytes.size());
  frame += static_cast<char>(bytes.size() >> 8);
  frame += static_cast<char>(part);
  return frame.append(bytes);
}

// A record that begins at `position` of the file: no part crosses the end of a block.
std::string log_record(int64_t position, std::string_view bytes) {
  std::string log;
  bool is_first = true;
  do {
    int64_t room = kBlockBytes - (position + static_cast<int64_t>(log.size())) % kBlockBytes;
    if (room < kRecordHeaderBytes) {
      log.append(static_cast<size_t>(room), '\0');
      room = kBlockBytes;
    }
    const auto fits = static_cast<size_t>(room - kRecordHeaderBytes);
    const bool is_last = bytes.size() <= fits;
    const Part part = is_first ? (is_last ? Part::whole : Part::first) : (is_last ? Part::last : Part::middle);
    log += framed(part, bytes.substr(0, fits));
    bytes.remove_prefix(std::min(fits, bytes.size()));
    is_first = false;
    if (is_last) return log;
  } while (true);
}

// Python's JSON, which W&B reads: with NaN and Infinity.
std::string value_json(const Json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const double number = value.get<double>();
    return std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  }
  return encode_json(value);
}

ProtobufWriter item(const std::string& key, const Json& value) {
  return ProtobufWriter().text(2, key).text(16, value_json(value));  // nested_key, value_json
}

std::string random_id() {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::random_device random;
  std::string id;
  for (int i = 0; i < 8; ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

std::string utc(double seconds, const char* format) {
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  char text[64];
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

ProtobufWriter timestamp(double seconds) {
  const double whole = std::floor(seconds);
  return ProtobufWriter()
      .integer(1, static_cast<int64_t>(whole))
      .integer(2, static_cast<int64_t>((seconds - whole) * 1e9));
}

class Wandb final : public Tracker {
 public:
  explicit Wandb(TrackerOptions options) : options_(std::move(options)) {
    if (options_.memory.is_object()) {
      id_ = options_.memory.value("id", "");
      started_ = options_.memory.value("started", 0.0);
    }
  }

  arrow::Status begin_attempt(const TrackedAttempt& attempt) override { return ensure_open(attempt.time); }

  arrow::Status write(std::span<const TrackedRow> rows) override {
    if (rows.empty()) return arrow::Status::OK();
    ARROW_RETURN_NOT_OK(ensure_open(rows.front().time));
    std::vector<ProtobufWriter> records;
    std::map<std::string, Json> last;
    for (const TrackedRow& row : rows) {
      // A step that is over takes nothing more.
      if (!row.is_checkpoint()) records.push_back(history(row));
      if (!row.checkpoint.empty()) last["checkpoint"] = row.checkpoint;
      for (const auto& [name, value] : row.metrics) last[name] = value;
    }
    ProtobufWriter summary;
    for (const auto& [name, value] : last) summary.message(1, item(name, value));
    records.push_back(ProtobufWriter().message(3, summary));
    return append(records);
  }

  arrow::Status finish(const TrackedEnd& end) override {
    ARROW_RETURN_NOT_OK(ensure_open(end.time));
    const int64_t code = end.state == FinalState::finished ? 0 : 1;
    const auto runtime = static_cast<int64_t>(end.time - started_);
    return append({ProtobufWriter().message(18, ProtobufWriter().integer(1, code).integer(2, runtime))});
  }

  Json memory() const override {
    if (id_.empty()) return nullptr;
    return {{"id", id_}, {"started", started_}};
  }

 private:
  arrow::Status ensure_open(double time) {
    if (file_) return arrow::Status::OK();
    const bool is_new = id_.empty();
    if (is_new) {
      id_ = random_id();
      started_ = time;
    }
    const std::string base = options_.config.path.empty() ? options_.run.folder : options_.config.path;
    const std::string folder =
        base + "/" + run_layout::kWandb + "/offline-run-" + utc(time, "%Y%m%d_%H%M%S") + "-" + id_;
    ARROW_ASSIGN_OR_RAISE(AppendFile file, open_in(folder, "run-" + id_ + ".wandb"));
    if (file.size() == 0) ARROW_RETURN_NOT_OK(file.append(kFileHeader));
    file_.emplace(std::move(file));
    const arrow::Status begun = append(beginning(is_new));
    if (!begun.ok()) file_.reset();
    return begun;
  }

  std::vector<ProtobufWriter> beginning(bool is_new) const {
    const auto version = ProtobufWriter().text(1, "paceline").text(2, "0.10.0");
    std::vector<ProtobufWriter> records = {ProtobufWriter().message(21, ProtobufWriter().message(1, version))};
    ProtobufWriter config;
    for (const auto& [name, value] : options_.run.train_loop_config.items()) config.message(1, item(name, value));
    ProtobufWriter run;
    run.text(1, id_);
    if (!options_.config.entity.empty()) run.text(2, options_.config.entity);
    run.text(3, options_.config.project.empty() ? "paceline" : options_.config.project);
    run.message(4, config).text(8, options_.run.name);
    for (const auto& [key, value] : options_.config.tags) run.text(10, value.empty() ? key : key + "=" + value);
    run.text(13, host_name()).message(17, timestamp(started_)).integer(18, is_new ? 0 : 1);
    records.push_back(ProtobufWriter().message(17, run));
    if (const std::string& step = options_.config.step_metric; !step.empty()) {
      // The x-axis of all other metrics: MetricRecord with glob_name, step_metric.
      records.push_back(ProtobufWriter().message(12, ProtobufWriter().text(2, "*").text(4, step)));
    }
    return records;
  }

  // Steps of W&B only ever grow: a report's number; step_metric is the x-axis.
  ProtobufWriter history(const TrackedRow& row) const {
    ProtobufWriter history;
    for (const auto& [name, value] : row.metrics) history.message(1, item(name, value));
    history.message(1, item("_step", row.report)).message(1, item("_timestamp", row.time));
    history.message(1, item("_runtime", row.time - started_)).message(2, ProtobufWriter().integer(1, row.report));
    return ProtobufWriter().message(2, history);
  }

  arrow::Status append(const std::vector<ProtobufWriter>& records) {
    std::string log;
    int64_t number = number_;
    for (const ProtobufWriter& record : records) {
      const std::string bytes = ProtobufWriter().integer(1, ++number).bytes() + record.bytes();
      log += log_record(file_->size() + static_cast<int64_t>(log.size()), bytes);
    }
    ARROW_RETURN_NOT_OK(file_->append(log));
    number_ = number;
    return arrow::Status::OK();
  }

  const TrackerOptions options_;
  std::string id_;
  double started_ = 0;
  std::optional<AppendFile> file_;
  int64_t number_ = 0;
};

}  // namespace

std::unique_ptr<Tracker> make_wandb(TrackerOptions options) {
  return std::make_unique<Wandb>(std::move(options));
}

}  // namespace paceline::track
