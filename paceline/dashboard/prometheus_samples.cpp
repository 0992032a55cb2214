// What nodes, GPUs and processes do, as Prometheus reads it: a row for each metric and number of a sample, with Ray's
// names behind ours.

#include <array>
#include <optional>

#include "paceline/dashboard/prometheus.h"

namespace paceline::dashboard {
namespace {

constexpr double kPercent = 100;
constexpr double kMib = 1 << 20;
constexpr double kMb = 1e6;

template <class Record>
struct Exported {
  const char* name;
  MaybeNumber Record::* number;
  double factor = 1;
  // One more label; null for none.
  const char* label = nullptr;
  const char* value = nullptr;
};

constexpr std::array kOfNode = {
    Exported<NodeSample>{"paceline_node_cpu_ratio", &NodeSample::cpu_ratio},
    Exported<NodeSample>{"paceline_node_cpu_cores", &NodeSample::cores},
    Exported<NodeSample>{"paceline_node_load1", &NodeSample::load_1m},
    Exported<NodeSample>{"paceline_node_memory_bytes", &NodeSample::memory_used_bytes, 1, "kind", "used"},
    Exported<NodeSample>{"paceline_node_memory_bytes", &NodeSample::memory_available_bytes, 1, "kind", "available"},
    Exported<NodeSample>{"paceline_node_memory_bytes", &NodeSample::memory_total_bytes, 1, "kind", "total"},
    Exported<NodeSample>{"paceline_node_memory_bytes", &NodeSample::memory_shared_bytes, 1, "kind", "shared"},
    Exported<NodeSample>{"paceline_node_memory_bytes", &NodeSample::swap_used_bytes, 1, "kind", "swap_used"},
    Exported<NodeSample>{"paceline_node_memory_bytes", &NodeSample::swap_total_bytes, 1, "kind", "swap_total"},
    Exported<NodeSample>{"paceline_node_memory_bytes", &NodeSample::group_memory_used_bytes, 1, "kind", "group_used"},
    Exported<NodeSample>{"paceline_node_memory_bytes", &NodeSample::group_memory_limit_bytes, 1, "kind", "group_limit"},
    Exported<NodeSample>{"paceline_node_disk_bytes", &NodeSample::disk_free_bytes, 1, "kind", "free"},
    Exported<NodeSample>{"paceline_node_disk_bytes", &NodeSample::disk_size_bytes, 1, "kind", "size"},
    Exported<NodeSample>{"paceline_node_disk_bytes_total", &NodeSample::disk_read_bytes_total, 1, "dir", "read"},
    Exported<NodeSample>{"paceline_node_disk_bytes_total", &NodeSample::disk_written_bytes_total, 1, "dir", "written"},
    Exported<NodeSample>{"paceline_node_net_bytes_total", &NodeSample::network_sent_bytes_total, 1, "dir", "sent"},
    Exported<NodeSample>{"paceline_node_net_bytes_total", &NodeSample::network_received_bytes_total, 1, "dir",
                         "received"},
};

constexpr std::array kOfNodeForRay = {
    Exported<NodeSample>{"ray_node_cpu_utilization", &NodeSample::cpu_ratio, kPercent},
    Exported<NodeSample>{"ray_node_cpu_count", &NodeSample::cores},
    Exported<NodeSample>{"ray_node_mem_used", &NodeSample::memory_used_bytes},
    Exported<NodeSample>{"ray_node_mem_available", &NodeSample::memory_available_bytes},
    Exported<NodeSample>{"ray_node_mem_total", &NodeSample::memory_total_bytes},
    Exported<NodeSample>{"ray_node_mem_shared_bytes", &NodeSample::memory_shared_bytes},
    Exported<NodeSample>{"ray_node_disk_free", &NodeSample::disk_free_bytes},
    Exported<NodeSample>{"ray_node_disk_io_read_speed", &NodeSample::disk_read_bytes_per_s},
    Exported<NodeSample>{"ray_node_disk_io_write_speed", &NodeSample::disk_written_bytes_per_s},
    Exported<NodeSample>{"ray_node_network_sent", &NodeSample::network_sent_bytes_total},
    Exported<NodeSample>{"ray_node_network_received", &NodeSample::network_received_bytes_total},
    Exported<NodeSample>{"ray_node_network_send_speed", &NodeSample::network_sent_bytes_per_s},
    Exported<NodeSample>{"ray_node_network_receive_speed", &NodeSample::network_received_bytes_per_s},
};

constexpr std::array kOfGpu = {
    Exported<GpuSample>{"paceline_gpu_utilization_ratio", &GpuSample::utilization_ratio},
    Exported<GpuSample>{"paceline_gpu_memory_bytes", &GpuSample::memory_used_bytes, 1, "kind", "used"},
    Exported<GpuSample>{"paceline_gpu_memory_bytes", &GpuSample::memory_total_bytes, 1, "kind", "total"},
    Exported<GpuSample>{"paceline_gpu_power_watts", &GpuSample::power_watts},
    Exported<GpuSample>{"paceline_gpu_temperature_celsius", &GpuSample::temperature_celsius},
    Exported<GpuSample>{"paceline_gpu_throttled", &GpuSample::throttled},
    Exported<GpuSample>{"paceline_gpu_ecc_errors_total", &GpuSample::ecc_errors_total},
};

constexpr std::array kOfGpuForRay = {
    Exported<GpuSample>{"ray_node_gpus_utilization", &GpuSample::utilization_ratio, kPercent},
    Exported<GpuSample>{"ray_node_gram_used", &GpuSample::memory_used_bytes, 1 / kMib},
    Exported<GpuSample>{"ray_node_gpu_power_milliwatts", &GpuSample::power_watts, 1000},
    Exported<GpuSample>{"ray_node_gpu_temperature_celsius", &GpuSample::temperature_celsius},
};

constexpr std::array kOfProcess = {
    Exported<ProcessSample>{"paceline_process_cpu_cores", &ProcessSample::cpu_cores},
    Exported<ProcessSample>{"paceline_process_threads", &ProcessSample::threads},
    Exported<ProcessSample>{"paceline_process_fds", &ProcessSample::descriptors},
    Exported<ProcessSample>{"paceline_process_read_bytes_per_second", &ProcessSample::read_bytes_per_s},
    Exported<ProcessSample>{"paceline_process_written_bytes_per_second", &ProcessSample::written_bytes_per_s},
    Exported<ProcessSample>{"paceline_process_gpu_memory_bytes", &ProcessSample::gpu_memory_bytes},
};

// Of a worker its driver tells these, also where there are no samples.
constexpr std::array kOfOtherProcess = {
    Exported<ProcessSample>{"paceline_process_cpu_seconds_total", &ProcessSample::cpu_seconds_total},
    Exported<ProcessSample>{"paceline_process_rss_bytes", &ProcessSample::rss_bytes},
};

constexpr std::array kOfProcessForRay = {
    Exported<ProcessSample>{"ray_component_cpu_percentage", &ProcessSample::cpu_cores, kPercent},
    Exported<ProcessSample>{"ray_component_rss_mb", &ProcessSample::rss_bytes, 1 / kMb},
    Exported<ProcessSample>{"ray_component_rss_bytes", &ProcessSample::rss_bytes},
    Exported<ProcessSample>{"ray_component_gpu_memory_mb", &ProcessSample::gpu_memory_bytes, 1 / kMib},
};

MaybeNumber difference(const MaybeNumber& all, const MaybeNumber& part) {
  return all && part ? MaybeNumber(*all - *part) : std::nullopt;
}

}  // namespace

template <class Rows, class Record>
void PrometheusText::add_rows(const Rows& rows, const Record& record, const Labels& labels) {
  for (const auto& row : rows) {
    const MaybeNumber& number = record.*row.number;
    if (!number) continue;
    sample(row.name, row.label == nullptr ? labels : with(labels, row.label, row.value), *number * row.factor);
  }
}

void PrometheusText::add_node(const std::string& run_id, const std::string& run_name, const views::NodeSummary& node) {
  const NodeSample& now = node.sample;
  const Labels labels = {{"run_id", run_id}, {"run_name", run_name}, {"node", node.name}};
  const Labels of_ray = {
      {"SessionName", run_name}, {"ray_train_run_id", run_id}, {"instance_name", node.name}, {"ip", node.name}};
  add_rows(kOfNode, now, labels);
  add_rows(kOfNodeForRay, now, of_ray);
  if (const auto used = difference(now.disk_size_bytes, now.disk_free_bytes)) {
    sample("ray_node_disk_usage", of_ray, *used);
  }
  for (const GpuSample& gpu : now.gpus) {
    const std::string index = std::to_string(gpu.index);
    add_rows(kOfGpu, gpu, with(with(with(labels, "gpu", index), "uuid", gpu.uuid), "name", gpu.name));
    const Labels of_gpu = with(with(of_ray, "GpuIndex", index), "GpuDeviceName", gpu.name);
    add_rows(kOfGpuForRay, gpu, of_gpu);
    if (const auto free = difference(gpu.memory_total_bytes, gpu.memory_used_bytes)) {
      sample("ray_node_gram_available", of_gpu, *free / kMib);
    }
  }
  for (const ProcessSample& process : now.processes) add_process(labels, of_ray, node, process);
}

void PrometheusText::add_process(const Labels& labels, const Labels& of_ray, const views::NodeSummary& node,
                                 const ProcessSample& process) {
  Labels of_process = with(labels, "role", process.role);
  const auto rank = node.ranks.find(std::to_string(process.worker));
  if (rank != node.ranks.end()) {
    of_process.emplace_back("rank", std::to_string(rank->second));
  } else {
    of_process.emplace_back("process", std::to_string(process.worker));
    add_rows(kOfOtherProcess, process, of_process);
  }
  add_rows(kOfProcess, process, of_process);
  add_rows(kOfProcessForRay, process,
           with(with(of_ray, "Component", process.role), "pid", std::to_string(process.pid)));
}

}  // namespace paceline::dashboard
