#include "paceline/track/series.h"

#include <cmath>

namespace paceline::track {
namespace {

// fmin and fmax pass over NaN.
void take_in(SeriesPoint& point, const SeriesPoint& next) {
  point = {next.report, std::fmin(point.min, next.min), std::fmax(point.max, next.max), next.last};
}

}  // namespace

void Series::add(int64_t report, double value) {
  if (points_.size() == kMostPoints && count_ % width_ == 0) halve();
  const SeriesPoint point{report, value, value, value};
  if (count_ % width_ == 0) {
    points_.push_back(point);
  } else {
    take_in(points_.back(), point);
  }
  ++count_;
}

void Series::halve() {
  for (size_t i = 0; 2 * i < points_.size(); ++i) {
    points_[i] = points_[2 * i];
    if (2 * i + 1 < points_.size()) take_in(points_[i], points_[2 * i + 1]);
  }
  points_.resize((points_.size() + 1) / 2);
  width_ *= 2;
}

void to_json(Json& json, const Series& series) {
  json = {{"count", series.count_}, {"width", series.width_}, {"points", Json::array()}};
  Json& points = json["points"];
  for (const SeriesPoint& point : series.points_) {
    points.push_back(Json::array({point.report, point.min, point.max, point.last}));
  }
}

void from_json(const Json& json, Series& series) {
  json.at("count").get_to(series.count_);
  json.at("width").get_to(series.width_);
  series.points_.clear();
  for (const Json& point : json.at("points")) {
    series.points_.push_back({point.at(0), point.at(1), point.at(2), point.at(3)});
  }
}

}  // namespace paceline::track
