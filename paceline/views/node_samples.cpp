#include "paceline/views/node_samples.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>

#include "paceline/views/kept_samples_internal.h"

namespace paceline::views {
namespace {

constexpr double kSilentSeconds = 15;

// When the last sample was written, in seconds of this machine's clock.
double written(const std::string& prefix) {
  struct stat what{};
  const std::string path = track::samples_path(prefix, track::kSampleTiers.front());
  return ::stat(path.c_str(), &what) == 0 ? static_cast<double>(what.st_mtim.tv_sec) : 0;
}

// The driver's clock goes on as it began, this machine's may have been set since, in either direction.
double age_of(double time, double now) {
  return std::fabs(now - time);
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

}  // namespace

std::vector<SampledSource> sampled_sources(const std::string& run_folder) {
  std::vector<SampledSource> sources;
  for (const auto& [source, prefix] : sample_prefixes(run_folder)) sources.push_back(source);
  return sources;
}

std::vector<NodeSummary> node_summaries(const track::RunRecord& record, double now) {
  std::vector<NodeSummary> nodes;
  for (const auto& [source, prefix] : sample_prefixes(record.run.path)) {
    if (source.source != "node") continue;
    NodeSummary node{.name = source.name};
    KeptSamples kept(prefix);
    const SamplesExtent& extent = kept.extent(0);
    if (!extent) continue;
    visit_rows(
        kept.text(0), [&](double time) { return time == extent->second; },
        [&](const SamplesHeaderPointer& header, const track::SamplesRow& row) {
          node.sample = sample_of(*header, row);
        });
    node.first = extent->first;
    for (size_t tier = track::kSampleTiers.size(); tier-- > 0;) {
      const SamplesExtent& oldest = kept.extent(tier);
      if (oldest) node.first = std::min(node.first, std::max(oldest->first, record.run.created));
      if (oldest) break;
    }
    const bool is_silent = std::min(age_of(node.sample.time, now), age_of(written(prefix), now)) > kSilentSeconds;
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

}  // namespace paceline::views
