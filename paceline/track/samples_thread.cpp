#include "paceline/track/samples_thread.h"

#include <cmath>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "paceline/core/run_layout.h"
#include "paceline/track/sample_files.h"

namespace paceline::track {
namespace {

constexpr size_t kMostWaitingBytes = 8 << 20;
constexpr size_t kMostNodes = 4096;
constexpr std::chrono::seconds kEndPatience{2};
// As far may a node's clock and ours be apart: what a message takes on its way shall not show.
constexpr double kClockTolerance = 2;

std::vector<NodeSample> samples_of(std::string_view lines) {
  std::vector<NodeSample> samples;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const auto json = decode_json(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (!json.ok()) continue;
    try {
      samples.push_back(json->get<NodeSample>());
    } catch (const Json::exception&) {
      continue;  // of an agent of another version
    }
  }
  return samples;
}

}  // namespace

struct SamplesThread::Desk {
  struct Parcel {
    std::string node;
    std::string lines;
    double received = 0;
  };

  struct Node {
    SampleFiles files;
    double behind_us = 0;  // its clock, in seconds
  };

  const std::string run_folder;
  const Gate gate;  // null when nobody may refuse

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Parcel> parcels;
  size_t waiting_bytes = 0;
  bool ending = false;

  std::map<std::string, Node> nodes;  // the thread's

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return ending || !parcels.empty(); });
      if (parcels.empty()) break;
      const auto taken = std::exchange(parcels, {});
      lock.unlock();
      if (is_allowed()) {
        for (const Parcel& parcel : taken) write(parcel);
      }
      lock.lock();
      for (const Parcel& parcel : taken) waiting_bytes -= parcel.lines.size();
    }
    lock.unlock();
    if (!is_allowed()) return;
    for (auto& [name, node] : nodes) node.files.finish();
  }

  bool is_allowed() const { return !gate || gate().ok(); }

  void write(const Parcel& parcel) {
    auto found = nodes.find(parcel.node);
    if (found == nodes.end()) {
      if (nodes.size() == kMostNodes) return;
      const std::string prefix = run_folder + "/" + run_layout::node_samples(parcel.node);
      found = nodes.emplace(parcel.node, Node{.files = SampleFiles(prefix, "node", parcel.node)}).first;
    }
    Node& node = found->second;
    std::vector<NodeSample> samples = samples_of(parcel.lines);
    if (samples.empty()) return;
    const double behind = parcel.received - samples.back().time;
    if (std::fabs(behind - node.behind_us) > kClockTolerance) {
      node.behind_us = std::fabs(behind) > kClockTolerance ? behind : 0;
    }
    for (NodeSample& sample : samples) {
      sample.time += node.behind_us;
      node.files.add(columns_of(sample));
    }
  }
};

SamplesThread::SamplesThread(std::string run_folder, Gate gate)
    : desk_(new Desk{.run_folder = std::move(run_folder), .gate = std::move(gate)}) {}

SamplesThread::~SamplesThread() {
  {
    const std::lock_guard lock(desk_->mutex);
    desk_->ending = true;
  }
  desk_->changed.notify_all();
  thread_.finish(kEndPatience);
}

void SamplesThread::take(const std::string& node, std::string lines, double received) {
  if (!std::exchange(is_started_, true)) thread_ = BackgroundThread([desk = desk_] { desk->work(); });
  const std::lock_guard lock(desk_->mutex);
  if (desk_->waiting_bytes + lines.size() > kMostWaitingBytes) return;
  desk_->waiting_bytes += lines.size();
  desk_->parcels.push_back({node, std::move(lines), received});
  desk_->changed.notify_all();
}

}  // namespace paceline::track
