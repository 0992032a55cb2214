#include <filesystem>
#include <fstream>

#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"
#include "paceline/views/kept_samples_internal.h"

namespace paceline::views {
namespace {

namespace fs = std::filesystem;

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

SamplesExtent extent_of(std::string_view text) {
  SamplesExtent extent;
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

}  // namespace

void visit_rows(std::string_view text, const std::function<bool(double time)>& is_wanted,
                const std::function<void(const SamplesHeaderPointer& header, const track::SamplesRow& row)>& visit) {
  SamplesHeaderPointer header;
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

std::map<SampledSource, std::string> sample_prefixes(const std::string& run_folder) {
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

const std::string& KeptSamples::text(size_t tier) {
  if (!texts_[tier]) texts_[tier] = text_of_tier(prefix_, track::kSampleTiers[tier]);
  return *texts_[tier];
}

const SamplesExtent& KeptSamples::extent(size_t tier) {
  if (!extents_[tier]) extents_[tier] = extent_of(text(tier));
  return *extents_[tier];
}

}  // namespace paceline::views
