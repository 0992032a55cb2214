#include "paceline/views/step_times.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

namespace paceline::views {
namespace {

constexpr std::string_view kBefore = "process/", kBehind = "/step_s";

// Of "process/7/step_s".
int64_t worker_of(const std::string& column) {
  return std::strtoll(column.c_str() + kBefore.size(), nullptr, 10);
}

// Six digits, as the samples have them: the texts of JSON are shorter.
double rounded(double seconds) {
  if (seconds <= 0 || !std::isfinite(seconds)) return seconds;
  const double unit = std::pow(10, std::floor(std::log10(seconds)) - 5);
  return std::round(seconds / unit) * unit;
}

}  // namespace

StepTimes step_times(const track::RunRecord& record, const SampleRange& range, double now) {
  StepTimes times{.first = record.run.created, .last = track::is_over(record.run) ? record.run.since : now};
  // The nodes' points are the same ones only when all of them are asked for the same part of the time.
  SampleRange part = range;
  if (part.from <= 0) part.from = std::floor(times.first);
  if (!std::isfinite(part.to)) part.to = std::ceil(times.last) + 1;
  std::map<int64_t, std::map<double, double>> cells;  // by rank and time
  std::set<double> places;
  for (const SampledSource& source : sampled_sources(record.run.path)) {
    if (source.source != "node") continue;
    std::string steps_of_all(kBefore);
    steps_of_all.append("*").append(kBehind);
    const auto curves = sample_curves(record.run.path, source, {steps_of_all}, part);
    if (!curves.ok() || curves->time.empty()) continue;
    times.seconds = curves->seconds;
    places.insert(curves->time.begin(), curves->time.end());
    for (const auto& [column, curve] : curves->curves) {
      const auto worker = record.workers.find(worker_of(column));
      if (worker == record.workers.end() || worker->second.rank < 0) continue;
      std::map<double, double>& row = cells[worker->second.rank];
      for (size_t i = 0; i < curve.mean.size(); ++i) {
        if (!std::isnan(curve.mean[i])) row[curves->time[i]] = curve.mean[i];
      }
    }
  }
  times.time.assign(places.begin(), places.end());
  for (const auto& [rank, row] : cells) {
    times.ranks.push_back(rank);
    std::vector<MaybeNumber>& steps = times.step_s.emplace_back(times.time.size());
    for (const auto& [time, seconds] : row) {
      const auto place = std::ranges::lower_bound(times.time, time);
      steps[static_cast<size_t>(place - times.time.begin())] = rounded(seconds);
    }
  }
  return times;
}

}  // namespace paceline::views
