// NodeSampler: what this node and some of its processes do, each time it is asked.
//
// It keeps the kernel's files open and reads them anew: with nine processes a sample takes well below a millisecond of
// processor time (benchmarks: sampling_cost). What changes slowly, or costs more (children of processes, descriptors,
// free space), is looked at each ten samples. Rates are since the sample before. Not thread-safe. A file system that
// hangs may hang it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/agent/sampling/gpus.h"
#include "paceline/agent/sampling/kernel_texts.h"
#include "paceline/core/clock.h"
#include "paceline/core/node_sample.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/process_stat.h"
#include "paceline/core/progress.h"

namespace paceline::agent {

/// A process that is sampled.
struct SampledProcess {
  /// As ProcessSample has them.
  int64_t worker = 0;
  std::string role;
  pid_t pid = 0;
  /// With what it has started.
  bool with_children = true;
  /// Where the run's data goes: its file system's free space is the node's. "" for no opinion.
  std::string folder = {};
};

class NodeSampler {
 public:
  explicit NodeSampler(std::unique_ptr<Gpus> gpus, const Clock& clock);

  /// Samples it from now on, until it has ended or is forgotten. It is alive.
  void watch(const SampledProcess& process);
  /// Where a process that is sampled notes how far it is.
  void watch_progress(int64_t worker, std::shared_ptr<const ProgressReader> progress);
  void forget(int64_t worker);

  NodeSample sample();

 private:
  // A kernel's file that is held open; its text until the next read.
  struct OpenFile {
    Descriptor file;
    std::string_view read(std::string& buffer) const;
  };
  // A number that only grows, as it grows.
  struct Growth {
    std::optional<double> last = {};
    MaybeNumber per_second(MaybeNumber total, double seconds);
  };
  struct Watched {
    SampledProcess about;
    std::shared_ptr<const ProgressReader> progress;  // null: of one that has not joined, or that notes nothing
    OpenFile stat;
    OpenFile io;
    std::optional<double> cpu_ticks;               // of itself, at the last sample
    std::map<pid_t, std::optional<double>> below;  // what it has started, likewise
    double cpu_seconds = 0;                        // of all together, since it is watched; those of before too
    MaybeNumber descriptors;
    Growth read, written;
  };

  void sample_processor(NodeSample& sample);
  void sample_memory(NodeSample& sample);
  void sample_traffic(NodeSample& sample, double seconds);
  void sample_disk_space(NodeSample& sample);
  void sample_gpus(NodeSample& sample);
  std::optional<ProcessSample> sample_process(Watched& watched, double seconds);
  std::optional<ProcessStat> stat_of(pid_t pid);
  void find_disks();
  void find_group();

  std::unique_ptr<Gpus> gpus_;
  const Clock& clock_;
  std::string buffer_;
  OpenFile stat_, load_, memory_, disks_, network_, group_used_, group_limit_;
  std::vector<std::string> disk_names_;
  std::string folder_ = "/";
  std::map<int64_t, Watched> watched_;
  std::map<pid_t, double> gpu_memory_;
  MaybeNumber disk_free_, disk_size_;
  std::optional<CpuTicks> ticks_;
  Growth disk_read_, disk_written_, sent_, received_;
  std::optional<Duration> before_;
  int64_t turn_ = 0;
};

}  // namespace paceline::agent
