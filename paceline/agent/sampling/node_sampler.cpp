#include "paceline/agent/sampling/node_sampler.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "paceline/agent/process_tree_internal.h"
#include "paceline/core/posix/kernel_file.h"
#include "paceline/core/posix/memory_limit.h"

namespace paceline::agent {
namespace {

constexpr int64_t kSlowTurns = 10;   // samples between looks at what changes slowly
constexpr int64_t kDisksTurns = 60;  // and at which disks there are
constexpr double kKib = 1024;
constexpr size_t kFirstBufferBytes = 64 << 10;

double ticks_per_second() {
  static const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return ticks;
}

MaybeNumber in_kib(std::optional<int64_t> number) {
  return number ? MaybeNumber(static_cast<double>(*number) * kKib) : std::nullopt;
}

MaybeNumber as_number(std::optional<int64_t> number) {
  return number ? MaybeNumber(static_cast<double>(*number)) : std::nullopt;
}

MaybeNumber difference(MaybeNumber more, MaybeNumber less) {
  return more && less ? MaybeNumber(std::max(*more - *less, 0.0)) : std::nullopt;
}

Descriptor open_file(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

const char* state_text(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'D':
      return "blocked";
    case 'T':
    case 't':
      return "stopped";
    case 'Z':
    case 'X':
      return "ended";
    default:
      return "asleep";
  }
}

// Newer kernels say it as the folder's size.
MaybeNumber count_descriptors(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  struct stat about{};
  if (::stat(folder.c_str(), &about) != 0) return std::nullopt;
  if (about.st_size > 0) return static_cast<double>(about.st_size);
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    ++count;
  }
  return error ? std::nullopt : MaybeNumber(count);
}

}  // namespace

std::string_view NodeSampler::OpenFile::read(std::string& buffer) const {
  if (!file) return {};
  size_t size = 0;
  while (true) {
    const ssize_t count = ::pread(file.get(), buffer.data() + size, buffer.size() - size, static_cast<off_t>(size));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    size += static_cast<size_t>(count);
    if (size == buffer.size()) buffer.resize(2 * size);
  }
  return std::string_view(buffer).substr(0, size);
}

MaybeNumber NodeSampler::Growth::per_second(MaybeNumber total, double seconds) {
  const std::optional<double> before = last;
  last = total;
  if (!before || !total || seconds <= 0 || *total < *before) return std::nullopt;
  return (*total - *before) / seconds;
}

NodeSampler::NodeSampler(std::unique_ptr<Gpus> gpus, const Clock& clock)
    : gpus_(std::move(gpus)),
      clock_(clock),
      buffer_(kFirstBufferBytes, '\0'),
      stat_{open_file("/proc/stat")},
      load_{open_file("/proc/loadavg")},
      memory_{open_file("/proc/meminfo")},
      disks_{open_file("/proc/diskstats")},
      network_{open_file("/proc/self/net/dev")} {
  find_group();
}

// The first group that has a limit is the one that ends processes.
void NodeSampler::find_group() {
  for (const auto& [folder, version] : memory_groups(read_kernel_file("/proc/self/cgroup"))) {
    const bool is_second = version == 2;
    const std::string limit = folder + (is_second ? "/memory.max" : "/memory.limit_in_bytes");
    if (parse_memory_limit(read_kernel_file(limit)) == 0) continue;
    group_limit_ = {open_file(limit)};
    group_used_ = {open_file(folder + (is_second ? "/memory.current" : "/memory.usage_in_bytes"))};
    return;
  }
}

void NodeSampler::find_disks() {
  disk_names_.clear();
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/sys/block", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (is_real_disk(name)) disk_names_.push_back(name);
  }
}

void NodeSampler::watch(const SampledProcess& process) {
  const std::string folder = "/proc/" + std::to_string(process.pid);
  watched_[process.worker] =
      Watched{.about = process, .stat = {open_file(folder + "/stat")}, .io = {open_file(folder + "/io")}};
  if (!process.folder.empty()) folder_ = process.folder;
}

void NodeSampler::watch_progress(int64_t worker, std::shared_ptr<const ProgressReader> progress) {
  const auto found = watched_.find(worker);
  if (found != watched_.end()) found->second.progress = std::move(progress);
}

void NodeSampler::forget(int64_t worker) {
  watched_.erase(worker);
}

NodeSample NodeSampler::sample() {
  const auto now = clock_.monotonic();
  const double seconds = before_ ? std::chrono::duration<double>(now - *before_).count() : 0;
  before_ = now;
  NodeSample sample{.time = to_seconds(clock_.now())};
  sample_processor(sample);
  sample_memory(sample);
  sample_traffic(sample, seconds);
  sample_disk_space(sample);
  sample_gpus(sample);
  for (auto& [worker, watched] : watched_) {
    if (auto process = sample_process(watched, seconds)) sample.processes.push_back(*std::move(process));
  }
  ++turn_;
  return sample;
}

void NodeSampler::sample_processor(NodeSample& sample) {
  const auto ticks = parse_cpu_ticks(stat_.read(buffer_));
  if (ticks && ticks_ && ticks->all > ticks_->all) {
    const auto busy = static_cast<double>(ticks->busy - ticks_->busy);
    sample.cpu_ratio = std::clamp(busy / static_cast<double>(ticks->all - ticks_->all), 0.0, 1.0);
  }
  ticks_ = ticks;
  sample.cores = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  sample.load_1m = parse_load(load_.read(buffer_));
}

void NodeSampler::sample_memory(NodeSample& sample) {
  const std::string_view text = memory_.read(buffer_);
  sample.memory_total_bytes = in_kib(parse_number_behind(text, "MemTotal:"));
  sample.memory_available_bytes = in_kib(parse_number_behind(text, "MemAvailable:"));
  sample.memory_used_bytes = difference(sample.memory_total_bytes, sample.memory_available_bytes);
  sample.memory_shared_bytes = in_kib(parse_number_behind(text, "Shmem:"));
  sample.swap_total_bytes = in_kib(parse_number_behind(text, "SwapTotal:"));
  sample.swap_used_bytes = difference(sample.swap_total_bytes, in_kib(parse_number_behind(text, "SwapFree:")));
  sample.group_memory_used_bytes = as_number(parse_leading_number(group_used_.read(buffer_)));
  sample.group_memory_limit_bytes = as_number(parse_leading_number(group_limit_.read(buffer_)));
}

void NodeSampler::sample_traffic(NodeSample& sample, double seconds) {
  if (turn_ % kDisksTurns == 0) find_disks();
  const auto disks = parse_disk_bytes(disks_.read(buffer_), [this](std::string_view name) {
    return std::ranges::find(disk_names_, name) != disk_names_.end();
  });
  if (disks) {
    sample.disk_read_bytes_total = static_cast<double>(disks->in);
    sample.disk_written_bytes_total = static_cast<double>(disks->out);
  }
  const auto network = parse_network_bytes(network_.read(buffer_));
  if (network) {
    sample.network_received_bytes_total = static_cast<double>(network->in);
    sample.network_sent_bytes_total = static_cast<double>(network->out);
  }
  sample.disk_read_bytes_per_s = disk_read_.per_second(sample.disk_read_bytes_total, seconds);
  sample.disk_written_bytes_per_s = disk_written_.per_second(sample.disk_written_bytes_total, seconds);
  sample.network_sent_bytes_per_s = sent_.per_second(sample.network_sent_bytes_total, seconds);
  sample.network_received_bytes_per_s = received_.per_second(sample.network_received_bytes_total, seconds);
}

void NodeSampler::sample_disk_space(NodeSample& sample) {
  if (turn_ % kSlowTurns == 0 || !disk_size_) {
    struct statvfs about{};
    const bool is_there = ::statvfs(folder_.c_str(), &about) == 0 || ::statvfs("/", &about) == 0;
    const auto block = static_cast<double>(about.f_frsize);
    disk_free_ = is_there ? MaybeNumber(static_cast<double>(about.f_bavail) * block) : std::nullopt;
    disk_size_ = is_there ? MaybeNumber(static_cast<double>(about.f_blocks) * block) : std::nullopt;
  }
  sample.disk_free_bytes = disk_free_;
  sample.disk_size_bytes = disk_size_;
}

void NodeSampler::sample_gpus(NodeSample& sample) {
  sample.gpus = gpus_->sample();
  sample.no_gpus_because = gpus_->problem();
  if (!sample.gpus.empty() && turn_ % (kSlowTurns / 2) == 0) gpu_memory_ = gpus_->memory_of_processes();
}

std::optional<ProcessStat> NodeSampler::stat_of(pid_t pid) {
  const OpenFile file{open_file("/proc/" + std::to_string(pid) + "/stat")};
  return parse_process_stat(file.read(buffer_));
}

std::optional<ProcessSample> NodeSampler::sample_process(Watched& watched, double seconds) {
  const auto own = parse_process_stat(watched.stat.read(buffer_));
  if (!own || own->resident_pages == 0) return std::nullopt;  // it has ended, or its memory has
  const bool is_turn = (turn_ + watched.about.worker) % kSlowTurns == 0 || !watched.cpu_ticks;
  if (is_turn) watched.descriptors = count_descriptors(watched.about.pid);
  if (is_turn && watched.about.with_children) {
    std::map<pid_t, std::optional<double>> below;
    std::vector<pid_t> found = children_of(watched.about.pid);
    for (size_t i = 0; i < found.size(); ++i) {
      const auto known = watched.below.find(found[i]);
      below[found[i]] = known == watched.below.end() ? std::nullopt : known->second;
      for (const pid_t child : children_of(found[i])) found.push_back(child);
    }
    watched.below = std::move(below);
  }
  double ticks = watched.cpu_ticks ? own->cpu_ticks - *watched.cpu_ticks : 0;
  if (!watched.cpu_ticks) watched.cpu_seconds = own->cpu_ticks / ticks_per_second();
  const bool is_first = !watched.cpu_ticks;
  watched.cpu_ticks = own->cpu_ticks;
  double pages = static_cast<double>(own->resident_pages), threads = static_cast<double>(own->threads);
  MaybeNumber gpu_memory;
  const auto add_gpu_memory = [&](pid_t pid) {
    const auto bytes = gpu_memory_.find(pid);
    if (bytes != gpu_memory_.end()) gpu_memory = gpu_memory.value_or(0) + bytes->second;
  };
  add_gpu_memory(watched.about.pid);
  for (auto& [pid, before] : watched.below) {
    const auto stat = stat_of(pid);
    if (!stat) continue;
    // What a child has used before it was found first belongs to the time since the last look: no moment's rate.
    if (before) ticks += std::max(stat->cpu_ticks - *before, 0.0);
    if (!before) watched.cpu_seconds += stat->cpu_ticks / ticks_per_second();
    before = stat->cpu_ticks;
    pages += static_cast<double>(stat->resident_pages);
    threads += static_cast<double>(stat->threads);
    add_gpu_memory(pid);
  }
  static const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  watched.cpu_seconds += ticks / ticks_per_second();
  ProcessSample sample{.worker = watched.about.worker,
                       .role = watched.about.role,
                       .pid = watched.about.pid,
                       .state = state_text(own->state),
                       .rss_bytes = pages * page,
                       .threads = threads,
                       .descriptors = watched.descriptors,
                       .gpu_memory_bytes = gpu_memory,
                       .cpu_seconds_total = watched.cpu_seconds};
  if (!is_first && seconds > 0) sample.cpu_cores = ticks / ticks_per_second() / seconds;
  if (watched.progress) {
    const ProgressReading progress = watched.progress->read(clock_.monotonic());
    // One that stands still is seen before its step ends, which it may never do.
    if (progress.steps_timed > 0) {
      sample.step_s = std::chrono::duration<double>(std::max(progress.step_time, progress.in_step)).count();
    }
  }
  const std::string_view io = watched.io.read(buffer_);
  sample.read_bytes_per_s = watched.read.per_second(as_number(parse_number_behind(io, "read_bytes:")), seconds);
  sample.written_bytes_per_s = watched.written.per_second(as_number(parse_number_behind(io, "write_bytes:")), seconds);
  return sample;
}

}  // namespace paceline::agent
