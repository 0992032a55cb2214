#include "paceline/views/metric_curves.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>

#include "paceline/track/metrics_history.h"

namespace paceline::views {
namespace {

// A shorter one is read before a thread has begun.
constexpr size_t kBytesOfPart = size_t{4} << 20;
constexpr size_t kMostThreads = 8;  // others want the machine too

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

void MetricCurves::Part::add(const ShownNumbers& numbers) {
  const auto row = static_cast<uint32_t>(reports.size());
  reports.push_back(numbers.report());
  times.push_back(numbers.time());
  auto metric = metrics.begin();  // mostly the names are those of the report before, in the same order
  for (const auto& [name, value] : numbers.numbers()) {
    if (metric == metrics.end() || metric->first != name) metric = metrics.try_emplace(name).first;
    metric->second.rows.push_back(row);
    metric->second.values.push_back(value);
    ++metric;
  }
}

void MetricCurves::Part::append(const Part& next) {
  const auto before = static_cast<uint32_t>(reports.size());
  reports.insert(reports.end(), next.reports.begin(), next.reports.end());
  times.insert(times.end(), next.times.begin(), next.times.end());
  for (const auto& [name, added] : next.metrics) {
    Values& metric = metrics[name];
    for (const uint32_t row : added.rows) metric.rows.push_back(before + row);
    metric.values.insert(metric.values.end(), added.values.begin(), added.values.end());
  }
}

arrow::Status MetricCurves::read() {
  const auto begin_anew = [this] { *this = MetricCurves(history_.path().substr(0, history_.path().rfind('/'))); };
  if (history_.was_replaced()) begin_anew();
  const size_t most = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  ARROW_ASSIGN_OR_RAISE(const int64_t size, history_.unread_bytes());
  if (size == 0) return arrow::Status::OK();
  const arrow::Status read = read_parts(std::clamp<size_t>(static_cast<size_t>(size) / kBytesOfPart, 1, most));
  if (!read.ok()) begin_anew();  // of some lines nobody knows whether they were taken
  return read;
}

arrow::Status MetricCurves::read_parts(size_t count) {
  std::vector<Part> others(count - 1);
  std::vector<storage::LineReader::Take> takes;
  for (size_t i = 0; i < count; ++i) {
    Part& part = i == 0 ? all_ : others[i - 1];
    takes.emplace_back([&part, numbers = std::make_shared<ShownNumbers>()](std::string_view line) {
      if (numbers->take(line)) part.add(*numbers);
      return arrow::Status::OK();
    });
  }
  ARROW_RETURN_NOT_OK(history_.read_in_parts(takes));
  for (const Part& part : others) all_.append(part);
  return arrow::Status::OK();
}

size_t MetricCurves::size() const {
  size_t size = 0;
  for (const auto& [name, metric] : all_.metrics) size += metric.values.size();
  return size;
}

std::vector<std::string> MetricCurves::names() const {
  std::vector<std::string> names;
  for (const auto& [name, values] : all_.metrics) names.push_back(name);
  return names;
}

Curve MetricCurves::curve(const std::string& name, const CurveRange& range) const {
  Curve curve;
  const auto found = all_.metrics.find(name);
  if (found == all_.metrics.end() || range.points == 0) return curve;
  const Values& metric = found->second;
  // Reports come in order, but for those that an attempt which starts from a checkpoint makes again: all in the range.
  std::vector<size_t> chosen;
  for (size_t i = 0; i < metric.rows.size(); ++i) {
    const int64_t report = all_.reports[metric.rows[i]];
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
    curve.report.push_back(all_.reports[metric.rows[last]]);
    curve.time.push_back(all_.times[metric.rows[last]]);
    curve.min.push_back(least);
    curve.max.push_back(greatest);
    curve.last.push_back(metric.values[last]);
  }
  return curve;
}

}  // namespace paceline::views
