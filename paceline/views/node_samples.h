// What nodes and data processes of a run did, from the samples in its folder (track/sample_files.h): now, and over time
// in as many points as a chart wants.
//
// Each call reads the files that it needs, half a megabyte each at most. Files that are being written, replaced or
// damaged cost the lines in question. Thread-safe: no state.
#pragma once

#include <arrow/result.h>

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/core/node_sample.h"
#include "paceline/track/run_record.h"
#include "paceline/track/sample_files.h"

namespace paceline::views {

using RanksById = std::map<std::string, int64_t>;

// A node as the pages list it.
#define PACELINE_NODE_SUMMARY_FIELDS(FIELD)                                                                 \
  FIELD(std::string, name, "")                                                                              \
  FIELD(std::string, state, "") /* "live", "silent" while the run goes on without samples of it, "ended" */ \
  FIELD(double, first, 0.0)     /* when its first sample that is kept was taken */                          \
  FIELD(RanksById, ranks, {})   /* of the last attempt's workers that were here, by their ids */            \
  FIELD(NodeSample, sample, {}) /* the last; states of processes are left out */
PACELINE_RECORD(NodeSummary, PACELINE_NODE_SUMMARY_FIELDS);

/// The nodes of a run by name, with their last samples. `now` in seconds since the Unix epoch.
std::vector<NodeSummary> node_summaries(const track::RunRecord& record, double now);

/// Whose samples, as SamplesHeader has it: source "node" with the node's name, source "data" with the data process's
/// number.
struct SampledSource {
  std::string source;
  std::string name;

  auto operator<=>(const SampledSource&) const = default;
};
/// All of a run, by source and name.
std::vector<SampledSource> sampled_sources(const std::string& run_folder);

/// Which part, in seconds since the Unix epoch, and how many points at most.
struct SampleRange {
  double from = 0;
  double to = std::numeric_limits<double>::infinity();
  size_t points = 400;
};

/// Numbers over time: lists of the same length. NaN where there were no samples.
struct SampleCurve {
  std::vector<double> mean, min, max;
};
struct SampleCurves {
  /// When the first and the last sample that are kept were taken; 0 where there are none.
  double first = 0, last = 0;
  /// That a point stands for.
  double seconds = 1;
  /// At which each point begins.
  std::vector<double> time;
  std::map<std::string, SampleCurve> curves;
  /// Names of all numbers in this part of the time, and what is told of GPUs and processes, the last word of each.
  std::vector<std::string> names;
  Json about = Json::object();
};

/// The curves of these names; of all without any. A name that ends with "/" means all that begin with it, and '*' in
/// one any text without "/". Totals have no curves. KeyError when the run has no samples of that source.
arrow::Result<SampleCurves> sample_curves(const std::string& run_folder, const SampledSource& of,
                                          const std::vector<std::string>& names, const SampleRange& range);

}  // namespace paceline::views
