#include "paceline/views/metric_curves.h"

#include <algorithm>
#include <cmath>

#include "paceline/track/metrics_history.h"
#include "paceline/track/run_record.h"

namespace paceline::views {
namespace {

Json number_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

Json numbers_json(const std::vector<double>& values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(number_json(value));
  return json;
}

}  // namespace

Json curve_json(const Curve& curve) {
  return {{"report", curve.report},
          {"time", numbers_json(curve.time)},
          {"min", numbers_json(curve.min)},
          {"max", numbers_json(curve.max)},
          {"last", numbers_json(curve.last)}};
}

Curve stored_curve(const track::Series& series) {
  Curve curve;
  for (const track::SeriesPoint& point : series.points()) {
    curve.report.push_back(point.report);
    curve.time.push_back(std::nan(""));
    curve.min.push_back(point.min);
    curve.max.push_back(point.max);
    curve.last.push_back(point.last);
  }
  return curve;
}

MetricCurves::MetricCurves(const std::string& run_folder) : history_(track::history_path(run_folder)) {}

arrow::Status MetricCurves::read() {
  if (history_.was_replaced()) *this = MetricCurves(history_.path().substr(0, history_.path().rfind('/')));
  return history_.read([this](std::string_view line) {
    if (!track::may_be_shown(line)) return arrow::Status::OK();
    const auto row = track::decode_history_line(line);
    if (!row || row->highest != 0) return arrow::Status::OK();
    const Json* metrics = track::shown_metrics(*row);
    if (metrics == nullptr) return arrow::Status::OK();
    const auto number = static_cast<uint32_t>(reports_.size());
    reports_.push_back(row->report);
    times_.push_back(row->time);
    track::visit_metrics(*metrics, [&](const std::string& name, const Json& value) {
      if (!value.is_number()) return;
      Values& metric = metrics_[name];
      metric.rows.push_back(number);
      metric.values.push_back(value.get<double>());
      ++size_;
    });
    return arrow::Status::OK();
  });
}

std::vector<std::string> MetricCurves::names() const {
  std::vector<std::string> names;
  for (const auto& [name, values] : metrics_) names.push_back(name);
  return names;
}

Curve MetricCurves::curve(const std::string& name, const CurveRange& range) const {
  Curve curve;
  const auto found = metrics_.find(name);
  if (found == metrics_.end() || range.points == 0) return curve;
  const Values& metric = found->second;
  // Reports come in order, but for those that an attempt which starts from a checkpoint makes again: all in the range.
  std::vector<size_t> chosen;
  for (size_t i = 0; i < metric.rows.size(); ++i) {
    const int64_t report = reports_[metric.rows[i]];
    if (report >= range.from && report <= range.to) chosen.push_back(i);
  }
  const size_t count = chosen.size();
  const size_t points = std::min(count, range.points);
  for (size_t point = 0; point < points; ++point) {
    const size_t begin = point * count / points, end = (point + 1) * count / points;
    double least = std::nan(""), greatest = std::nan("");
    for (size_t i = begin; i < end; ++i) {
      const double value = metric.values[chosen[i]];
      least = std::fmin(least, value);
      greatest = std::fmax(greatest, value);
    }
    const size_t last = chosen[end - 1];
    curve.report.push_back(reports_[metric.rows[last]]);
    curve.time.push_back(times_[metric.rows[last]]);
    curve.min.push_back(least);
    curve.max.push_back(greatest);
    curve.last.push_back(metric.values[last]);
  }
  return curve;
}

}  // namespace paceline::views
