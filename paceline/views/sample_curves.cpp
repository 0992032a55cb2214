// Curves of what a node or a data process did, from the resolutions that are kept.

#include <algorithm>
#include <cmath>
#include <set>

#include "paceline/views/kept_samples_internal.h"

namespace paceline::views {
namespace {

// Whether the name's one '*' stands for something in the column.
bool fits(std::string_view column, std::string_view name) {
  const size_t star = name.find('*');
  if (star == std::string_view::npos || column.size() < name.size() - 1) return false;
  const std::string_view before = name.substr(0, star), behind = name.substr(star + 1);
  if (!column.starts_with(before) || !column.ends_with(behind)) return false;
  return column.substr(star, column.size() - before.size() - behind.size()).find('/') == std::string_view::npos;
}

bool is_chosen(const std::string& column, const std::vector<std::string>& names) {
  if (track::is_total(column)) return false;
  return names.empty() || std::ranges::any_of(names, [&](const std::string& name) {
           return column == name || (name.ends_with('/') && column.starts_with(name)) || fits(column, name);
         });
}

// The means, least and greatest of what falls into each point.
class Points {
 public:
  Points(double from, double width, size_t count) : from_(from), width_(width), count_(count), has_(count, false) {}

  void add(const track::SamplesHeader& header, const track::SamplesRow& row, const std::vector<std::string>& names) {
    const double position = (row.time - from_) / width_;
    const auto point = static_cast<size_t>(std::clamp(position, 0.0, static_cast<double>(count_ - 1)));
    has_[point] = true;
    for (size_t i = 0; i < header.columns.size(); ++i) {
      const track::SampleValue& value = row.values[i];
      if (std::isnan(value.mean) || !is_chosen(header.columns[i], names)) continue;
      std::vector<Sum>& sums = sums_[header.columns[i]];
      if (sums.empty()) sums.resize(count_);
      Sum& sum = sums[point];
      sum.sum += value.mean;
      ++sum.count;
      sum.min = std::fmin(sum.min, value.min);
      sum.max = std::fmax(sum.max, value.max);
    }
  }

  void give(SampleCurves& curves) const {
    for (size_t point = 0; point < count_; ++point) {
      if (has_[point]) curves.time.push_back(from_ + static_cast<double>(point) * width_);
    }
    for (const auto& [name, sums] : sums_) {
      SampleCurve& curve = curves.curves[name];
      for (size_t point = 0; point < count_; ++point) {
        if (!has_[point]) continue;
        const Sum& sum = sums[point];
        curve.mean.push_back(sum.count > 0 ? sum.sum / static_cast<double>(sum.count) : std::nan(""));
        curve.min.push_back(sum.min);
        curve.max.push_back(sum.max);
      }
    }
  }

 private:
  struct Sum {
    double sum = 0;
    int64_t count = 0;
    double min = std::nan("");
    double max = std::nan("");
  };
  double from_;
  double width_;
  size_t count_;
  std::vector<bool> has_;
  std::map<std::string, std::vector<Sum>> sums_;
};

}  // namespace

arrow::Result<SampleCurves> sample_curves(const std::string& run_folder, const SampledSource& of,
                                          const std::vector<std::string>& names, const SampleRange& range) {
  const auto prefixes = sample_prefixes(run_folder);
  const auto found = prefixes.find(of);
  if (found == prefixes.end()) {
    return arrow::Status::KeyError("the run has no samples of the ", of.source, " \"", of.name, "\"");
  }
  const auto& tiers = track::kSampleTiers;
  KeptSamples kept(found->second);
  SampleCurves curves;
  // Every sample is in all resolutions, and the coarsest has them longest.
  for (size_t tier = tiers.size(); tier-- > 0 && curves.first == 0;) {
    if (const auto& extent = kept.extent(tier)) curves.first = extent->first;
  }
  if (const auto& finest = kept.extent(0)) curves.last = finest->second;
  if (!kept.extent(0) || range.points == 0) return curves;
  // Points of several nodes, of the same part of the time, are the same.
  const double first_wanted = range.from > 0 ? range.from : curves.first;
  const double last_wanted = std::isfinite(range.to) ? range.to : curves.last + 1;
  const double from = std::max(first_wanted, curves.first), to = std::min(last_wanted, curves.last + 1);
  if (!(from < to)) return curves;
  curves.seconds = std::max(1.0, std::ceil((last_wanted - first_wanted) / static_cast<double>(range.points)));
  const double begin = std::floor(from / curves.seconds) * curves.seconds;
  Points points(begin, curves.seconds, static_cast<size_t>((to - begin) / curves.seconds) + 1);
  std::set<std::string> known;
  SamplesHeaderPointer last_header;
  // What is there in the coarsest resolution that is fine enough; what is older than that in coarser ones, what is
  // newer in finer ones.
  const auto take = [&](size_t tier, double after, double before) {
    visit_rows(
        kept.text(tier),
        [&](double time) {
          const double middle = time + (tier == 0 ? 0 : tiers[tier].seconds / 2);
          return middle >= std::max(after, from) && middle < std::min(before, to);
        },
        [&](const SamplesHeaderPointer& header, const track::SamplesRow& row) {
          points.add(*header, row, names);
          if (header == last_header) return;
          last_header = header;
          known.insert(header->columns.begin(), header->columns.end());
          for (const auto& [name, about] : header->about.items()) {
            if (about.is_object() && curves.about.contains(name) && curves.about[name].is_object()) {
              curves.about[name].update(about);
            } else {
              curves.about[name] = about;
            }
          }
        });
  };
  size_t chosen = 0;
  for (size_t tier = 1; tier < tiers.size() && tiers[tier].seconds <= curves.seconds; ++tier) {
    if (kept.extent(tier)) chosen = tier;
  }
  const double infinity = std::numeric_limits<double>::infinity();
  double first = kept.extent(chosen)->first, last = kept.extent(chosen)->second + tiers[chosen].seconds;
  take(chosen, 0, infinity);
  for (size_t tier = chosen + 1; tier < tiers.size() && first > from; ++tier) {
    if (!kept.extent(tier) || kept.extent(tier)->first >= first) continue;
    take(tier, 0, first);
    first = kept.extent(tier)->first;
  }
  for (size_t tier = chosen; tier-- > 0 && last < to;) {
    if (!kept.extent(tier) || kept.extent(tier)->second < last) continue;
    take(tier, last, infinity);
    last = kept.extent(tier)->second + tiers[tier].seconds;
  }
  points.give(curves);
  for (const std::string& name : known) {
    if (!track::is_total(name)) curves.names.push_back(name);
  }
  return curves;
}

}  // namespace paceline::views
