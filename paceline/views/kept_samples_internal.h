// The samples that a run folder keeps (track/sample_files.h), as they are read: which sources there are, and the rows
// of each resolution. What cannot be read is left out.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "paceline/track/sample_files.h"
#include "paceline/views/node_samples.h"

namespace paceline::views {

using SamplesHeaderPointer = std::shared_ptr<const track::SamplesHeader>;
/// Times of the first and the last row, as they stand in the files: a clock may have been set back between them.
using SamplesExtent = std::optional<std::pair<double, double>>;

/// The paths up to the resolution, of all sources.
std::map<SampledSource, std::string> sample_prefixes(const std::string& run_folder);

/// Calls `visit` with the rows of a text that are `wanted` by their times.
void visit_rows(std::string_view text, const std::function<bool(double time)>& is_wanted,
                const std::function<void(const SamplesHeaderPointer& header, const track::SamplesRow& row)>& visit);

/// What is kept of a source, read once it is asked for. Resolutions are positions in track::kSampleTiers.
class KeptSamples {
 public:
  explicit KeptSamples(std::string prefix) : prefix_(std::move(prefix)) {}

  /// All lines of one resolution.
  const std::string& text(size_t tier);
  /// Nothing where there are no rows.
  const SamplesExtent& extent(size_t tier);

 private:
  std::string prefix_;
  std::array<std::optional<std::string>, track::kSampleTiers.size()> texts_;
  std::array<std::optional<SamplesExtent>, track::kSampleTiers.size()> extents_;
};

}  // namespace paceline::views
