#include "paceline/track/sample_files.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>

namespace paceline::track {
namespace {

// A time that is earlier by as much comes from a clock that was set back, and what it tells goes on.
constexpr double kSetBack = 5;
constexpr std::array kProcessStates = {"blocked", "live", "stopped"};

// Whether a process had a core at the very moment says nothing.
std::string counted_state(const std::string& state) {
  return state == "running" || state == "asleep" ? "live" : state;
}

// Adds a record's numbers, each behind `before`; what is none goes to `others`.
template <class Record>
void add_numbers(const Record& record, const std::string& before, Sample& sample, Json& others) {
  Record::visit(record, [&](const char* name, const auto& value) {
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, MaybeNumber>) {
      if (value) sample.values.emplace_back(before + name, *value);
    } else if constexpr (std::is_same_v<Value, std::string> || std::is_same_v<Value, int64_t>) {
      others[name] = value;
    }
  });
}

}  // namespace

Sample columns_of(const NodeSample& node) {
  Sample sample{.time = node.time};
  add_numbers(node, "", sample, sample.about);
  sample.about["gpus"] = Json::object();
  sample.about["processes"] = Json::object();
  for (const GpuSample& gpu : node.gpus) {
    add_numbers(gpu, "gpu/" + gpu.uuid + "/", sample, sample.about["gpus"][gpu.uuid]);
  }
  std::map<std::string, double> counts;
  for (const ProcessSample& process : node.processes) {
    const std::string id = std::to_string(process.worker);
    Json& others = sample.about["processes"][id];
    add_numbers(process, "process/" + id + "/", sample, others);
    others.erase("state");  // it changes from moment to moment
    for (const char* state : kProcessStates) counts["processes/" + process.role + "/" + state] += 0;
    ++counts["processes/" + process.role + "/" + counted_state(process.state)];
  }
  sample.values.insert(sample.values.end(), counts.begin(), counts.end());
  return sample;
}

Sample columns_of(const DataFigures& now, const DataFigures& before) {
  Sample sample{.time = now.time};
  const double seconds = now.time - before.time;
  for (size_t i = 0; i < now.datasets.size(); ++i) {
    const DatasetFigures& dataset = now.datasets[i];
    const bool is_known = i < before.datasets.size() && before.datasets[i].name == dataset.name && seconds > 0;
    const DatasetFigures was = is_known ? before.datasets[i] : DatasetFigures{};
    const auto add = [&](const std::string& name, double value) { sample.values.emplace_back(name, value); };
    const auto add_rate = [&](const std::string& name, double value, double value_before) {
      if (is_known) add(name, std::max(value - value_before, 0.0) / seconds);
    };
    for (size_t step = 0; step < dataset.steps.size(); ++step) {
      const OperatorFigures& figures = dataset.steps[step];
      const OperatorFigures old = step < was.steps.size() ? was.steps[step] : OperatorFigures{};
      const std::string name = dataset.name + "/" + std::to_string(step) + " " + figures.name + "/";
      add(name + "tasks_running", static_cast<double>(figures.num_tasks_running));
      add_rate(name + "rows_per_s", static_cast<double>(figures.rows_task_outputs_generated),
               static_cast<double>(old.rows_task_outputs_generated));
      add_rate(name + "bytes_per_s", static_cast<double>(figures.bytes_task_outputs_generated),
               static_cast<double>(old.bytes_task_outputs_generated));
      add_rate(name + "busy_threads", figures.block_generation_time, old.block_generation_time);
    }
    const ReadAheadFigures& ahead = dataset.read_ahead;
    add(dataset.name + "/queue_blocks", static_cast<double>(ahead.num_external_outqueue_blocks));
    add(dataset.name + "/queue_bytes", static_cast<double>(ahead.num_external_outqueue_bytes));
    add_rate(dataset.name + "/backpressure_threads", ahead.task_output_backpressure_time,
             was.read_ahead.task_output_backpressure_time);
    double waited = 0, waited_before = 0;
    for (const RankFigures& rank : dataset.ranks) waited += rank.waited_s;
    for (const RankFigures& rank : was.ranks) waited_before += rank.waited_s;
    add_rate(dataset.name + "/waiting_ranks", waited, waited_before);
  }
  return sample;
}

std::string samples_path(const std::string& prefix, const SampleTier& tier, bool before) {
  return prefix + "." + tier.name + ".jsonl" + (before ? ".1" : "");
}

// One resolution: its file, and the bucket that is being filled.
struct SampleFiles::Tier {
  struct Sum {
    double sum = 0;
    double min = std::numeric_limits<double>::quiet_NaN();
    double max = std::numeric_limits<double>::quiet_NaN();
    double last = std::numeric_limits<double>::quiet_NaN();
    int64_t count = 0;

    void add(double value) {
      if (std::isnan(value)) return;
      sum += value;
      min = std::fmin(min, value);
      max = std::fmax(max, value);
      last = value;
      ++count;
    }
  };

  const SampleTier* kind;
  std::optional<AppendFile> file;
  std::string wanted;  // the header for the columns of now
  std::string header;  // that the file's lines are of; "" before the first
  double bucket = 0;   // which one it is
  double first = 0;    // time of the first sample in it
  std::vector<Sum> sums;

  void write(const std::string& path, const std::string& line) {
    if (!file) {
      auto opened = AppendFile::open(path);
      if (!opened.ok()) return;
      file = *std::move(opened);
      (void)file->cut_torn_line();
    }
    const bool is_new = wanted != header;
    const auto size = std::ssize(line) + (is_new ? std::ssize(wanted) : 0);
    if (file->size() > 0 && file->size() + size > kind->file_bytes) {
      file.reset();
      header.clear();
      if (std::rename(path.c_str(), (path + ".1").c_str()) != 0) return;
      return write(path, line);
    }
    if (file->append(is_new ? wanted + line : line).ok()) header = wanted;
  }
};

SampleFiles::SampleFiles(std::string prefix, std::string source, std::string name)
    : prefix_(std::move(prefix)), source_(std::move(source)), name_(std::move(name)) {
  for (const SampleTier& kind : kSampleTiers) tiers_.push_back({.kind = &kind});
}

SampleFiles::~SampleFiles() = default;
SampleFiles::SampleFiles(SampleFiles&&) noexcept = default;

void SampleFiles::add(const Sample& sample) {
  const bool is_again = sample.time <= last_time_ && sample.time > last_time_ - kSetBack;
  if (is_again || sample.values.empty()) return;
  std::vector<double> values(columns_.size(), std::numeric_limits<double>::quiet_NaN());
  bool fits = sample.about == about_;
  size_t next = 0;  // mostly the columns are those of the sample before, in the same order
  for (auto value = sample.values.begin(); fits && value != sample.values.end(); ++value) {
    if (next >= columns_.size() || columns_[next] != value->first) {
      next = static_cast<size_t>(std::ranges::find(columns_, value->first) - columns_.begin());
    }
    fits = next < columns_.size();
    if (fits) values[next++] = value->second;
  }
  if (!fits) {
    finish();
    begin(sample);
    values.clear();
    for (const auto& [name, value] : sample.values) values.push_back(value);
  }
  last_time_ = sample.time;
  for (Tier& tier : tiers_) {
    const double bucket = std::floor(sample.time / tier.kind->seconds) * tier.kind->seconds;
    const bool is_finest = &tier == &tiers_.front();
    if (!is_finest && bucket != tier.bucket && !tier.sums.empty()) flush(tier);
    if (tier.sums.empty()) {
      tier.sums.resize(columns_.size());
      tier.bucket = bucket;
      tier.first = is_finest ? sample.time : std::floor(sample.time);
    }
    for (size_t i = 0; i < columns_.size(); ++i) tier.sums[i].add(values[i]);
    if (is_finest) flush(tier);
  }
}

// Other columns from here on. Those that a sample lacks stay: what comes and goes shall not cost a header each time.
void SampleFiles::begin(const Sample& sample) {
  std::error_code error;
  // Not what is above it: a run folder that somebody has moved away does not come back.
  std::filesystem::create_directory(std::filesystem::path(prefix_).parent_path(), error);
  about_ = sample.about;
  columns_.clear();
  for (const auto& [name, value] : sample.values) columns_.push_back(name);
  for (Tier& tier : tiers_) {
    tier.wanted = encode_samples_header(
        {.source = source_, .name = name_, .seconds = tier.kind->seconds, .columns = columns_, .about = about_});
  }
}

void SampleFiles::finish() {
  for (Tier& tier : tiers_) {
    if (!tier.sums.empty()) flush(tier);
  }
}

void SampleFiles::flush(Tier& tier) {
  SamplesRow row{.time = tier.first};
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Tier::Sum& sum = tier.sums[i];
    const double mean = is_total(columns_[i]) ? sum.last : sum.sum / static_cast<double>(sum.count);
    row.values.push_back(sum.count > 0 ? SampleValue{mean, sum.min, sum.max} : SampleValue{});
  }
  tier.sums.clear();
  tier.write(samples_path(prefix_, *tier.kind), encode_samples_row(row, columns_));
}

}  // namespace paceline::track
