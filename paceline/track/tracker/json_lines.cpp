// One flat JSON object a report in metrics_flat.jsonl: what data tools read without knowing Paceline.
#include <cmath>

#include "paceline/core/run_layout.h"
#include "paceline/track/tracker/built_in_internal.h"
#include "paceline/track/tracker/line_tracker_internal.h"

namespace paceline::track {
namespace {

// JSON has no NaN, and not every reader takes one: null. The history keeps it.
Json finite(const Json& value) {
  return value.is_number_float() && !std::isfinite(value.get<double>()) ? Json() : value;
}

// "step", "report", "attempt", "time", "checkpoint".
constexpr size_t kOwnMembers = 5;

class JsonLines final : public LineTracker {
 public:
  explicit JsonLines(TrackerOptions options) : LineTracker(std::move(options), run_layout::kJsonLines) {}

 private:
  arrow::Result<int64_t> begin(AppendFile& file) override {
    const auto is_report = [](std::string_view text) {
      const Json json = decode_json(text).ValueOr(Json());
      return !json.is_object() || json.size() > kOwnMembers || json.value("checkpoint", Json()).is_null();
    };
    ARROW_ASSIGN_OR_RAISE(const std::string line, file.last_line(is_report));
    const Json last = decode_json(line).ValueOr(Json());
    return last.is_object() ? last.value("report", int64_t{0}) : 0;
  }

  std::string line_of(const TrackedRow& row) const override {
    Json line = {{"step", row.step}, {"report", row.report}, {"attempt", row.attempt}, {"time", row.time}};
    line["checkpoint"] = row.checkpoint.empty() ? Json() : Json(row.checkpoint);
    for (const auto& [name, value] : row.metrics) {
      const bool is_taken = line.contains(name);
      line[is_taken ? "metrics/" + name : name] = finite(value);
    }
    return encode_json(line) + "\n";
  }
};

}  // namespace

std::unique_ptr<Tracker> make_json_lines(TrackerOptions options) {
  return std::make_unique<JsonLines>(std::move(options));
}

}  // namespace paceline::track
