// TensorBoard event files: a record per report (length, masked CRC-32C, protocol buffer, masked CRC-32C), the train
// loop's configuration as hyperparameters. Formats: tensorflow/core/lib/io/record_writer.cc, event.proto and
// summary.proto of TensorFlow, plugin_data.proto of TensorBoard's hparams.
//
// Each attempt writes a file of its own that begins with SessionLog START at the step after its checkpoint: TensorBoard
// then leaves out what an earlier attempt wrote beyond it.
#include <sys/types.h>
#include <unistd.h>

#include <boost/crc.hpp>
#include <cinttypes>
#include <cstdio>

#include "paceline/core/posix/host_name.h"
#include "paceline/core/run_layout.h"
#include "paceline/track/tracker/built_in_internal.h"
#include "paceline/track/tracker/line_tracker_internal.h"
#include "paceline/track/tracker/protobuf_writer.h"

namespace paceline::track {
namespace {

using Crc32c = boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true>;

template <class Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

std::string masked_crc(const std::string& bytes) {
  Crc32c crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const uint32_t sum = crc.checksum();
  return little_endian<uint32_t>(((sum >> 15) | (sum << 17)) + 0xa282ead8u);
}

std::string record(const ProtobufWriter& event) {
  const std::string length = little_endian<uint64_t>(event.bytes().size());
  return length + masked_crc(length) + event.bytes() + masked_crc(event.bytes());
}

ProtobufWriter event_at(double time, int64_t step) {
  return ProtobufWriter().number(1, time).integer(2, step);
}

std::string scalars(const TrackedRow& row) {
  ProtobufWriter summary;
  for (const auto& [name, value] : row.metrics) {
    const auto number = number_of(value);
    if (number) summary.message(1, ProtobufWriter().text(1, name).single(2, static_cast<float>(*number)));
  }
  return summary.bytes().empty() ? "" : record(event_at(row.time, row.step).message(5, summary));
}

// A google.protobuf.Value.
ProtobufWriter value_message(const Json& value) {
  if (value.is_boolean()) return ProtobufWriter().integer(4, value.get<bool>() ? 1 : 0);
  if (value.is_number()) return ProtobufWriter().number(2, value.get<double>());
  return ProtobufWriter().text(3, value.is_string() ? value.get<std::string>() : encode_json(value));
}

// A summary of the plugin "hparams", whose content stands in the metadata; the tensor is an empty one of floats.
std::string hparams_record(double time, const char* tag, int kind, const ProtobufWriter& info) {
  const auto content = ProtobufWriter().integer(1, 0).message(kind, info);
  const auto plugin = ProtobufWriter().text(1, "hparams").text(2, content.bytes());
  const auto shape = ProtobufWriter().message(2, ProtobufWriter().integer(1, 0));
  const auto tensor = ProtobufWriter().integer(1, 1).message(2, shape);
  const auto value = ProtobufWriter().text(1, tag).message(8, tensor).message(9, ProtobufWriter().message(1, plugin));
  return record(event_at(time, 0).message(5, ProtobufWriter().message(1, value)));
}

std::string session_start(const TrackedRun& run, double time) {
  ProtobufWriter info;
  for (const auto& [name, value] : flat_metrics(run.train_loop_config)) {
    if (value.is_null()) continue;
    info.message(1, ProtobufWriter().text(1, name).message(2, value_message(value)));
  }
  info.text(4, run.name).number(5, time);
  return hparams_record(time, "_hparams_/session_start_info", 3, info);
}

std::string session_end(const TrackedEnd& end) {
  // TensorBoard's: success, failure, unknown.
  const int64_t status = end.state == FinalState::finished ? 1 : end.state == FinalState::errored ? 2 : 0;
  return hparams_record(end.time, "_hparams_/session_end_info", 4,
                        ProtobufWriter().integer(1, status).number(2, end.time));
}

class TensorBoard final : public Tracker {
 public:
  explicit TensorBoard(TrackerOptions options) : options_(std::move(options)) {}

  arrow::Status begin_attempt(const TrackedAttempt& attempt) override {
    ARROW_RETURN_NOT_OK(open(attempt.time));
    const auto session_log = ProtobufWriter().integer(1, 1);  // START
    return file_->append(record(event_at(attempt.time, attempt.resume_step + 1).message(7, session_log)));
  }

  arrow::Status write(std::span<const TrackedRow> rows) override {
    if (rows.empty()) return arrow::Status::OK();
    if (!file_) ARROW_RETURN_NOT_OK(open(rows.front().time));
    std::string bytes;
    for (const TrackedRow& row : rows) bytes += scalars(row);
    return file_->append(bytes);
  }

  arrow::Status finish(const TrackedEnd& end) override {
    if (!file_) ARROW_RETURN_NOT_OK(open(end.time));
    return file_->append(session_end(end));
  }

 private:
  // A new file, whose name sorts behind the earlier ones: TensorBoard goes on to it and does not come back.
  arrow::Status open(double time) {
    const std::string folder =
        options_.config.path.empty() ? options_.run.folder + "/" + run_layout::kTensorBoard : folder_of(options_);
    char name[200];
    std::snprintf(name, sizeof name, "events.out.tfevents.%010" PRId64 ".%s.%d.%04d", static_cast<int64_t>(time),
                  host_name().c_str(), ::getpid(), files_++);
    ARROW_ASSIGN_OR_RAISE(AppendFile file, open_in(folder, name));
    ARROW_RETURN_NOT_OK(
        file.append(record(event_at(time, 0).text(3, "brain.Event:2")) + session_start(options_.run, time)));
    file_.emplace(std::move(file));
    return arrow::Status::OK();
  }

  const TrackerOptions options_;
  std::optional<AppendFile> file_;
  int files_ = 0;
};

}  // namespace

std::unique_ptr<Tracker> make_tensorboard(TrackerOptions options) {
  return std::make_unique<TensorBoard>(std::move(options));
}

}  // namespace paceline::track
