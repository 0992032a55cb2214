// SampleFiles: the samples of one node, or of one data process, in the run folder: those of the last minutes as they
// came, older ones in ever larger buckets. However long the run, they take a few megabytes.
//
// Of each resolution (kSampleTiers) there are two files, the one that grows and the one before it. Files are named
// "node_NAME.1s.jsonl" and "node_NAME.1s.jsonl.1" (run_layout::node_samples); lines are those of sample_lines.h. What a
// file cannot take is lost, and no error. Not thread-safe; one writer.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/data_figures.h"
#include "paceline/core/node_sample.h"
#include "paceline/track/append_file.h"
#include "paceline/track/sample_lines.h"

namespace paceline::track {

struct SampleTier {
  /// As names of files have it: "1s", "1m".
  const char* name;
  double seconds;
  /// A file that would grow beyond it becomes the one before.
  int64_t file_bytes;
};
/// The finest first.
inline constexpr std::array kSampleTiers = {SampleTier{"1s", 1, 512 << 10},    SampleTier{"10s", 10, 768 << 10},
                                            SampleTier{"1m", 60, 512 << 10},   SampleTier{"10m", 600, 256 << 10},
                                            SampleTier{"1h", 3600, 256 << 10}, SampleTier{"6h", 21600, 256 << 10}};

/// What was measured at one moment.
struct Sample {
  double time = 0;
  std::vector<std::pair<std::string, double>> values;  // by their names, each once
  Json about = Json::object();
};

/// A node's as columns: its own numbers by their names, "gpu/UUID/…", "process/7/…", and "processes/ROLE/STATE": how
/// many there are ("live", "blocked" by a disk, "stopped" by a signal). `about`: "gpus" and "processes", by UUID and
/// id, with what is no number.
Sample columns_of(const NodeSample& sample);

/// A data process's as columns: what it has done since `before`, by "DATASET/NUMBER STEP/…" and "DATASET/…".
Sample columns_of(const DataFigures& now, const DataFigures& before);

/// "PREFIX.10s.jsonl", and with `before` the file before that.
std::string samples_path(const std::string& prefix, const SampleTier& tier, bool before = false);

class SampleFiles {
 public:
  /// `prefix`: path of the files up to the resolution. Nothing is made before the first sample.
  SampleFiles(std::string prefix, std::string source, std::string name);
  ~SampleFiles();
  SampleFiles(SampleFiles&&) noexcept;

  /// Adds a sample. Their times grow; one that is not later than the one before, or has no values, is left out, but for
  /// a clock that was set back by seconds: from there on its times count.
  void add(const Sample& sample);
  /// Writes the buckets that are not full.
  void finish();

 private:
  struct Tier;
  void begin(const Sample& sample);
  void flush(Tier& tier);

  std::string prefix_;
  std::string source_;
  std::string name_;
  double last_time_ = 0;
  std::vector<std::string> columns_;
  Json about_;
  std::vector<Tier> tiers_;
};

}  // namespace paceline::track
