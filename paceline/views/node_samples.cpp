#include "paceline/views/node_samples.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>

#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"

namespace paceline::views {
namespace {

namespace fs = std::filesystem;

constexpr double kSilentSeconds = 15;

std::string text_of(const std::string& path) {
  return storage::read_file(path).ValueOr("");
}

// Calls `visit` with the lines of a text that have ends.
void visit_lines(std::string_view text, const std::function<void(std::string_view line)>& visit) {
  while (true) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return;
    visit(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

using Header = std::shared_ptr<const track::SamplesHeader>;

// Calls `visit` with the rows of a text that are `wanted` by their times.
void visit_rows(std::string_view text, const std::function<bool(double time)>& is_wanted,
                const std::function<void(const Header& header, const track::SamplesRow& row)>& visit) {
  Header header;
  track::SamplesRow row;
  visit_lines(text, [&](std::string_view line) {
    if (line.starts_with('{')) {
      auto decoded = track::decode_samples_header(line);
      header = decoded ? std::make_shared<track::SamplesHeader>(*std::move(decoded)) : nullptr;
      return;
    }
    if (header == nullptr || !line.starts_with('[')) return;
    const std::string_view first = line.substr(0, line.find(','));
    if (!track::decode_samples_row(std::string(first) + "]", 0, row) || !is_wanted(row.time)) return;
    if (track::decode_samples_row(line, header->columns.size(), row)) visit(header, row);
  });
}

// Times of the first and the last row.
std::optional<std::pair<double, double>> extent_of(std::string_view text) {
  std::optional<std::pair<double, double>> extent;
  track::SamplesRow row;
  visit_lines(text, [&](std::string_view line) {
    if (!line.starts_with('[')) return;
    if (!track::decode_samples_row(std::string(line.substr(0, line.find(','))) + "]", 0, row)) return;
    if (!extent) extent.emplace(row.time, row.time);
    extent->second = row.time;
  });
  return extent;
}

// All that is kept in one resolution.
std::string text_of_tier(const std::string& prefix, const track::SampleTier& tier) {
  return text_of(track::samples_path(prefix, tier, /*before=*/true)) + text_of(track::samples_path(prefix, tier));
}

// What is kept of a source, read once it is asked for.
class Kept {
 public:
  explicit Kept(std::string prefix) : prefix_(std::move(prefix)) {}

  const std::string& text(size_t tier) {
    if (!texts_[tier]) texts_[tier] = text_of_tier(prefix_, track::kSampleTiers[tier]);
    return *texts_[tier];
  }
  // Times of the first and the last row of one resolution; nothing where there are none.
  const std::optional<std::pair<double, double>>& extent(size_t tier) {
    if (!extents_[tier]) extents_[tier] = extent_of(text(tier));
    return *extents_[tier];
  }

 private:
  std::string prefix_;
  std::array<std::optional<std::string>, track::kSampleTiers.size()> texts_;
  std::array<std::optional<std::optional<std::pair<double, double>>>, track::kSampleTiers.size()> extents_;
};

// The paths up to the resolution, of all sources.
std::map<SampledSource, std::string> prefixes_of(const std::string& run_folder) {
  std::map<SampledSource, std::string> prefixes;
  const std::string ending = track::samples_path("", track::kSampleTiers.front());
  std::error_code error;
  for (fs::directory_iterator entry(fs::path(run_folder) / run_layout::kSamples, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path();
    if (!path.ends_with(ending)) continue;
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);  // each file begins with a header
    const auto header = track::decode_samples_header(line);
    if (!header) continue;
    prefixes.emplace(SampledSource{header->source, header->name}, path.substr(0, path.size() - ending.size()));
  }
  return prefixes;
}

template <class Record>
void fill_numbers(Record& record, const std::string& before, const std::map<std::string, double>& numbers,
                  const Json& about) {
  if (about.is_object()) from_json(about, record);
  Record::visit(record, [&](const char* name, auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, MaybeNumber>) {
      const auto found = numbers.find(before + name);
      if (found != numbers.end()) value = found->second;
    }
  });
}

// The sample that track::columns_of() made columns of, but for the states of processes.
NodeSample sample_of(const track::SamplesHeader& header, const track::SamplesRow& row) {
  std::map<std::string, double> numbers;
  for (size_t i = 0; i < header.columns.size(); ++i) {
    if (!std::isnan(row.values[i].mean)) numbers[header.columns[i]] = row.values[i].mean;
  }
  NodeSample sample;
  try {
    fill_numbers(sample, "", numbers, Json{{"no_gpus_because", header.about.value("no_gpus_because", "")}});
    const Json gpus = header.about.value("gpus", Json::object());
    for (const auto& [uuid, about] : gpus.items()) {
      fill_numbers(sample.gpus.emplace_back(), "gpu/" + uuid + "/", numbers, about);
    }
    const Json processes = header.about.value("processes", Json::object());
    for (const auto& [id, about] : processes.items()) {
      fill_numbers(sample.processes.emplace_back(), "process/" + id + "/", numbers, about);
    }
  } catch (const Json::exception&) {
    // Of another version: what is understood is told.
  }
  sample.time = row.time;
  std::ranges::sort(sample.gpus, {}, &GpuSample::index);
  std::ranges::sort(sample.processes, {}, &ProcessSample::worker);
  return sample;
}

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

std::vector<SampledSource> sampled_sources(const std::string& run_folder) {
  std::vector<SampledSource> sources;
  for (const auto& [source, prefix] : prefixes_of(run_folder)) sources.push_back(source);
  return sources;
}

std::vector<NodeSummary> node_summaries(const track::RunRecord& record, double now) {
  std::vector<NodeSummary> nodes;
  for (const auto& [source, prefix] : prefixes_of(record.run.path)) {
    if (source.source != "node") continue;
    NodeSummary node{.name = source.name};
    const std::string text = text_of_tier(prefix, track::kSampleTiers.front());
    const auto extent = extent_of(text);
    if (!extent) continue;
    visit_rows(
        text, [&](double time) { return time == extent->second; },
        [&](const Header& header, const track::SamplesRow& row) { node.sample = sample_of(*header, row); });
    node.first = extent->first;
    for (auto tier = track::kSampleTiers.rbegin(); tier != track::kSampleTiers.rend(); ++tier) {
      const auto oldest = extent_of(text_of_tier(prefix, *tier));
      if (oldest) node.first = std::min(node.first, std::max(oldest->first, record.run.created));
      if (oldest) break;
    }
    const bool is_silent = now - node.sample.time > kSilentSeconds;
    node.state = track::is_over(record.run) ? "ended" : is_silent ? "silent" : "live";
    for (const auto& [id, worker] : record.workers) {
      if (worker.attempt == record.run.attempt && worker.node == node.name && worker.rank >= 0) {
        node.ranks[std::to_string(id)] = worker.rank;
      }
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

arrow::Result<SampleCurves> sample_curves(const std::string& run_folder, const SampledSource& of,
                                          const std::vector<std::string>& names, const SampleRange& range) {
  const auto prefixes = prefixes_of(run_folder);
  const auto found = prefixes.find(of);
  if (found == prefixes.end()) {
    return arrow::Status::KeyError("the run has no samples of the ", of.source, " \"", of.name, "\"");
  }
  const auto& tiers = track::kSampleTiers;
  Kept kept(found->second);
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
  Header last_header;
  // What is there in the coarsest resolution that is fine enough; what is older than that in coarser ones, what is
  // newer in finer ones.
  const auto take = [&](size_t tier, double after, double before) {
    visit_rows(
        kept.text(tier),
        [&](double time) {
          const double middle = time + (tier == 0 ? 0 : tiers[tier].seconds / 2);
          return middle >= std::max(after, from) && middle < std::min(before, to);
        },
        [&](const Header& header, const track::SamplesRow& row) {
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
