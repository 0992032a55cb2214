#include "paceline/dashboard/prometheus.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "paceline/core/clock.h"
#include "paceline/core/json.h"
#include "paceline/policy/state.h"

namespace paceline::dashboard {
namespace {

constexpr double kPercent = 100;
constexpr double kMib = 1 << 20;
constexpr double kMb = 1e6;

struct MetricMeaning {
  const char* name;
  const char* kind;
  const char* what;
};

constexpr MetricMeaning kMeanings[] = {
    {"paceline_run_info", "gauge", "1; what is known of the run stands in the labels"},
    {"paceline_run_state", "gauge", "1 for the state that the run is in, 0 for the others"},
    {"paceline_attempts_total", "counter", "Attempts of the run"},
    {"paceline_loss", "gauge", "The metric loss of the last report"},
    {"paceline_grad_norm", "gauge", "The metric grad_norm of the last report"},
    {"paceline_learning_rate", "gauge", "The metric learning_rate, or lr, of the last report"},
    {"paceline_steps_total", "counter", "Steps of a rank"},
    {"paceline_process_cpu_seconds_total", "counter", "CPU time of a worker"},
    {"paceline_process_rss_bytes", "gauge", "Resident memory of a worker"},
    {"paceline_checkpoint_last_success_timestamp_seconds", "gauge", "When the last checkpoint was published"},
    {"paceline_time_seconds_total", "counter", "What a rank has spent its time on; known is data_wait"},
    {"paceline_data_rows_total", "counter", "Rows that a step of a dataset has made"},
    {"paceline_data_bytes_total", "counter", "Bytes that a step of a dataset has made"},
    {"paceline_data_queue_items", "gauge", "Blocks of a dataset that were read ahead"},
    {"paceline_data_queue_bytes", "gauge", "Bytes of a dataset that were read ahead"},
    {"paceline_data_backpressure_seconds_total", "counter", "How long reading ahead has waited for consumers"},
    {"paceline_process_threads", "gauge", "Threads of a process, with those that it has started"},
    {"paceline_process_fds", "gauge", "Open descriptors of a process"},
    {"paceline_process_cpu_cores", "gauge", "Cores that a process kept busy in the last second"},
    {"paceline_process_read_bytes_per_second", "gauge", "What a process has read from disks in the last second"},
    {"paceline_process_written_bytes_per_second", "gauge", "What a process has written to disks in the last second"},
    {"paceline_process_gpu_memory_bytes", "gauge", "Memory of GPUs that a process has"},
    {"paceline_node_cpu_ratio", "gauge", "Share of the cores' time that the node worked, in the last second"},
    {"paceline_node_cpu_cores", "gauge", "Cores of the node"},
    {"paceline_node_load1", "gauge", "Load of the last minute"},
    {"paceline_node_memory_bytes", "gauge", "Memory of the node, by kind"},
    {"paceline_node_disk_bytes", "gauge", "Space where the run's folder is: free, and size"},
    {"paceline_node_disk_bytes_total", "counter", "What the node has read from disks and written"},
    {"paceline_node_net_bytes_total", "counter", "What the node has sent and received, without loopback"},
    {"paceline_gpu_utilization_ratio", "gauge", "Share of the time with a kernel at work"},
    {"paceline_gpu_memory_bytes", "gauge", "Memory of the GPU, by kind"},
    {"paceline_gpu_power_watts", "gauge", "What the GPU takes"},
    {"paceline_gpu_temperature_celsius", "gauge", "Temperature of the GPU"},
    {"paceline_gpu_throttled", "gauge", "1 while heat or power holds the GPU's clocks down"},
    {"paceline_gpu_ecc_errors_total", "counter", "Errors of the GPU's memory that could not be corrected"},
    // For dashboards that were made for Ray.
    {"ray_node_cpu_utilization", "gauge", "paceline_node_cpu_ratio in percent"},
    {"ray_node_cpu_count", "gauge", "paceline_node_cpu_cores as Ray names it"},
    {"ray_node_mem_used", "gauge", "paceline_node_memory_bytes, used"},
    {"ray_node_mem_available", "gauge", "paceline_node_memory_bytes, available"},
    {"ray_node_mem_total", "gauge", "paceline_node_memory_bytes, all"},
    {"ray_node_mem_shared_bytes", "gauge", "paceline_node_memory_bytes, shared"},
    {"ray_node_disk_usage", "gauge", "Used space where the run's folder is"},
    {"ray_node_disk_free", "gauge", "Free space there"},
    {"ray_node_disk_io_read_speed", "gauge", "Bytes per second that the node reads from disks"},
    {"ray_node_disk_io_write_speed", "gauge", "Bytes per second that the node writes to disks"},
    {"ray_node_network_sent", "gauge", "paceline_node_net_bytes_total, sent"},
    {"ray_node_network_received", "gauge", "paceline_node_net_bytes_total, received"},
    {"ray_node_network_send_speed", "gauge", "Bytes per second that the node sends"},
    {"ray_node_network_receive_speed", "gauge", "Bytes per second that the node receives"},
    {"ray_node_gpus_utilization", "gauge", "paceline_gpu_utilization_ratio in percent"},
    {"ray_node_gram_used", "gauge", "Memory of the GPU that is used, in MiB"},
    {"ray_node_gram_available", "gauge", "Memory of the GPU that is free, in MiB"},
    {"ray_node_gpu_power_milliwatts", "gauge", "paceline_gpu_power_watts in milliwatts"},
    {"ray_node_gpu_temperature_celsius", "gauge", "paceline_gpu_temperature_celsius as Ray names it"},
    {"ray_component_cpu_percentage", "gauge", "Processor time of a process, in percent of a core"},
    {"ray_component_rss_mb", "gauge", "Resident memory of a process, in MB"},
    {"ray_component_rss_bytes", "gauge", "Resident memory of a process"},
    {"ray_component_gpu_memory_mb", "gauge", "Memory of GPUs that a process has, in MiB"},
    {"ray_train_controller_state", "gauge", "paceline_run_state as Ray Train names it"},
    {"ray_data_rows_task_outputs_generated", "gauge", "paceline_data_rows_total as Ray Data names it"},
    {"ray_data_bytes_task_outputs_generated", "gauge", "paceline_data_bytes_total as Ray Data names it"},
};

// "0.25", "12", "NaN", "+Inf".
std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.17g", value);
  return text.data();
}

std::string in_capitals(std::string text) {
  for (char& letter : text) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return text;
}

Labels with(Labels labels, std::string name, std::string value) {
  labels.emplace_back(std::move(name), std::move(value));
  return labels;
}

}  // namespace

std::string label_text(const std::string& value) {
  const bool is_text = is_utf8(value);
  std::string text = "\"";
  for (const char letter : value) {
    if (letter == '\\') {
      text += "\\\\";
    } else if (letter == '"') {
      text += "\\\"";
    } else if (letter == '\n') {
      text += "\\n";
    } else if (!is_text && (letter & 0x80) != 0) {
      text += '?';
    } else {
      text += letter;
    }
  }
  return text + "\"";
}

bool is_exported(const views::ListedRun& run) {
  constexpr double kHour = 3600;
  const bool goes_on = run.driver == views::DriverState::alive || run.driver == views::DriverState::elsewhere;
  return !run.gone && (goes_on || to_seconds(SystemClock().now()) - run.since < kHour);
}

void PrometheusText::sample(const std::string& name, Labels labels, double value) {
  std::string& samples = samples_[name];
  samples += name + "{";
  for (size_t i = 0; i < labels.size(); ++i) {
    samples += (i == 0 ? "" : ",") + labels[i].first + "=" + label_text(labels[i].second);
  }
  samples += "} " + number_text(value) + "\n";
}

void PrometheusText::add(const views::ListedRun& listed, const views::RunSummary& run, const track::RunRecord& record) {
  const Labels labels = {{"run_id", run.id}, {"run_name", run.name}};
  sample("paceline_run_info", with(labels, "host", run.host), 1);
  for (int state = 0; state <= static_cast<int>(policy::State::aborted); ++state) {
    const std::string name = policy::to_string(static_cast<policy::State>(state));
    const bool died = listed.driver == views::DriverState::gone;
    const int is_now = run.state == name && !died ? 1 : 0;
    sample("paceline_run_state", with(labels, "state", name), is_now);
    sample("ray_train_controller_state",
           {{"ray_train_run_name", run.name},
            {"ray_train_run_id", run.id},
            {"ray_train_controller_state", in_capitals(name)}},
           is_now);
  }
  sample("paceline_run_state", with(labels, "state", "driver died"), listed.driver == views::DriverState::gone ? 1 : 0);
  sample("paceline_attempts_total", labels, static_cast<double>(record.attempts.size()));
  constexpr std::pair<const char*, const char*> kReported[] = {{"loss", "paceline_loss"},
                                                               {"grad_norm", "paceline_grad_norm"},
                                                               {"learning_rate", "paceline_learning_rate"},
                                                               {"lr", "paceline_learning_rate"}};
  for (const auto& [metric, name] : kReported) {
    if (!run.metrics.is_object()) break;
    const auto found = run.metrics.find(metric);
    const bool has_both = std::string(metric) == "lr" && run.metrics.contains("learning_rate");
    if (found != run.metrics.end() && found->is_number() && !has_both) sample(name, labels, found->get<double>());
  }
  if (!run.checkpoints.empty()) {
    sample("paceline_checkpoint_last_success_timestamp_seconds", labels, run.checkpoints.back().time);
  }
  if (run.live) add_workers(labels, run);
  add_data(labels, run);
}

void PrometheusText::add_workers(const Labels& labels, const views::RunSummary& run) {
  for (const Json& worker : run.workers) {
    const Json rank = worker.value("rank", Json());
    if (!rank.is_number_integer()) continue;
    const Labels of_rank = with(with(labels, "rank", rank.dump()), "node", worker.value("node", ""));
    if (const int64_t step = worker.value("step", int64_t{0}); step > 0) {
      sample("paceline_steps_total", of_rank, static_cast<double>(step));
    }
    const auto resident = worker.value("resident_bytes", int64_t{0});
    if (resident == 0) continue;
    sample("paceline_process_cpu_seconds_total", of_rank, worker.value("cpu_s", 0.0));
    sample("paceline_process_rss_bytes", of_rank, static_cast<double>(resident));
  }
}

void PrometheusText::sample(const std::string& name, Labels labels, const MaybeNumber& value, double factor) {
  if (value) sample(name, std::move(labels), *value * factor);
}

void PrometheusText::add_node(const std::string& run_id, const std::string& run_name, const views::NodeSummary& node) {
  const NodeSample& now = node.sample;
  const Labels labels = {{"run_id", run_id}, {"run_name", run_name}, {"node", node.name}};
  sample("paceline_node_cpu_ratio", labels, now.cpu_ratio);
  sample("paceline_node_cpu_cores", labels, now.cores);
  sample("paceline_node_load1", labels, now.load_1m);
  const std::pair<const char*, MaybeNumber> memory[] = {{"used", now.memory_used_bytes},
                                                        {"available", now.memory_available_bytes},
                                                        {"total", now.memory_total_bytes},
                                                        {"shared", now.memory_shared_bytes},
                                                        {"swap_used", now.swap_used_bytes},
                                                        {"swap_total", now.swap_total_bytes},
                                                        {"group_used", now.group_memory_used_bytes},
                                                        {"group_limit", now.group_memory_limit_bytes}};
  for (const auto& [kind, bytes] : memory) sample("paceline_node_memory_bytes", with(labels, "kind", kind), bytes);
  sample("paceline_node_disk_bytes", with(labels, "kind", "free"), now.disk_free_bytes);
  sample("paceline_node_disk_bytes", with(labels, "kind", "size"), now.disk_size_bytes);
  sample("paceline_node_disk_bytes_total", with(labels, "dir", "read"), now.disk_read_bytes_total);
  sample("paceline_node_disk_bytes_total", with(labels, "dir", "written"), now.disk_written_bytes_total);
  sample("paceline_node_net_bytes_total", with(labels, "dir", "sent"), now.network_sent_bytes_total);
  sample("paceline_node_net_bytes_total", with(labels, "dir", "received"), now.network_received_bytes_total);

  const Labels of_ray = {
      {"SessionName", run_name}, {"ray_train_run_id", run_id}, {"instance_name", node.name}, {"ip", node.name}};
  sample("ray_node_cpu_utilization", of_ray, now.cpu_ratio, kPercent);
  sample("ray_node_cpu_count", of_ray, now.cores);
  sample("ray_node_mem_used", of_ray, now.memory_used_bytes);
  sample("ray_node_mem_available", of_ray, now.memory_available_bytes);
  sample("ray_node_mem_total", of_ray, now.memory_total_bytes);
  sample("ray_node_mem_shared_bytes", of_ray, now.memory_shared_bytes);
  if (now.disk_size_bytes && now.disk_free_bytes) {
    sample("ray_node_disk_usage", of_ray, *now.disk_size_bytes - *now.disk_free_bytes);
  }
  sample("ray_node_disk_free", of_ray, now.disk_free_bytes);
  sample("ray_node_disk_io_read_speed", of_ray, now.disk_read_bytes_per_s);
  sample("ray_node_disk_io_write_speed", of_ray, now.disk_written_bytes_per_s);
  sample("ray_node_network_sent", of_ray, now.network_sent_bytes_total);
  sample("ray_node_network_received", of_ray, now.network_received_bytes_total);
  sample("ray_node_network_send_speed", of_ray, now.network_sent_bytes_per_s);
  sample("ray_node_network_receive_speed", of_ray, now.network_received_bytes_per_s);
  for (const GpuSample& gpu : now.gpus) {
    add_gpu(with(labels, "gpu", std::to_string(gpu.index)), gpu);
    const Labels of_gpu = with(with(of_ray, "GpuIndex", std::to_string(gpu.index)), "GpuDeviceName", gpu.name);
    sample("ray_node_gpus_utilization", of_gpu, gpu.utilization_ratio, kPercent);
    sample("ray_node_gram_used", of_gpu, gpu.memory_used_bytes, 1 / kMib);
    if (gpu.memory_total_bytes && gpu.memory_used_bytes) {
      sample("ray_node_gram_available", of_gpu, (*gpu.memory_total_bytes - *gpu.memory_used_bytes) / kMib);
    }
    sample("ray_node_gpu_power_milliwatts", of_gpu, gpu.power_watts, 1000);
    sample("ray_node_gpu_temperature_celsius", of_gpu, gpu.temperature_celsius);
  }
  for (const ProcessSample& process : now.processes) {
    add_process(labels, node, process);
    const Labels of_process = with(with(of_ray, "Component", process.role), "pid", std::to_string(process.pid));
    sample("ray_component_cpu_percentage", of_process, process.cpu_cores, kPercent);
    sample("ray_component_rss_mb", of_process, process.rss_bytes, 1 / kMb);
    sample("ray_component_rss_bytes", of_process, process.rss_bytes);
    sample("ray_component_gpu_memory_mb", of_process, process.gpu_memory_bytes, 1 / kMib);
  }
}

void PrometheusText::add_gpu(const Labels& labels, const GpuSample& gpu) {
  const Labels of_gpu = with(with(labels, "uuid", gpu.uuid), "name", gpu.name);
  sample("paceline_gpu_utilization_ratio", of_gpu, gpu.utilization_ratio);
  sample("paceline_gpu_memory_bytes", with(of_gpu, "kind", "used"), gpu.memory_used_bytes);
  sample("paceline_gpu_memory_bytes", with(of_gpu, "kind", "total"), gpu.memory_total_bytes);
  sample("paceline_gpu_power_watts", of_gpu, gpu.power_watts);
  sample("paceline_gpu_temperature_celsius", of_gpu, gpu.temperature_celsius);
  sample("paceline_gpu_throttled", of_gpu, gpu.throttled);
  sample("paceline_gpu_ecc_errors_total", of_gpu, gpu.ecc_errors_total);
}

// A worker's processor time and resident memory its driver tells, also where there are no samples.
void PrometheusText::add_process(const Labels& labels, const views::NodeSummary& node, const ProcessSample& process) {
  Labels of_process = with(labels, "role", process.role);
  const auto rank = node.ranks.find(std::to_string(process.worker));
  if (rank != node.ranks.end()) {
    of_process.emplace_back("rank", std::to_string(rank->second));
  } else {
    of_process.emplace_back("process", std::to_string(process.worker));
    sample("paceline_process_cpu_seconds_total", of_process, process.cpu_seconds_total);
    sample("paceline_process_rss_bytes", of_process, process.rss_bytes);
  }
  sample("paceline_process_cpu_cores", of_process, process.cpu_cores);
  sample("paceline_process_threads", of_process, process.threads);
  sample("paceline_process_fds", of_process, process.descriptors);
  sample("paceline_process_read_bytes_per_second", of_process, process.read_bytes_per_s);
  sample("paceline_process_written_bytes_per_second", of_process, process.written_bytes_per_s);
  sample("paceline_process_gpu_memory_bytes", of_process, process.gpu_memory_bytes);
}

void PrometheusText::add_data(const Labels& labels, const views::RunSummary& run) {
  std::map<int64_t, double> waited;
  for (const DatasetFigures& dataset : run.datasets) {
    const Labels of_dataset = with(labels, "dataset", dataset.name);
    for (size_t i = 0; i < dataset.steps.size(); ++i) {
      const OperatorFigures& step = dataset.steps[i];
      const Labels of_step = with(of_dataset, "operator", std::to_string(i) + " " + step.name);
      const auto rows = static_cast<double>(step.rows_task_outputs_generated);
      const auto bytes = static_cast<double>(step.bytes_task_outputs_generated);
      sample("paceline_data_rows_total", of_step, rows);
      sample("paceline_data_bytes_total", of_step, bytes);
      sample("ray_data_rows_task_outputs_generated", of_step, rows);
      sample("ray_data_bytes_task_outputs_generated", of_step, bytes);
    }
    const ReadAheadFigures& ahead = dataset.read_ahead;
    sample("paceline_data_queue_items", of_dataset, static_cast<double>(ahead.num_external_outqueue_blocks));
    sample("paceline_data_queue_bytes", of_dataset, static_cast<double>(ahead.num_external_outqueue_bytes));
    sample("paceline_data_backpressure_seconds_total", with(of_dataset, "reason", "output"),
           ahead.task_output_backpressure_time);
    for (const RankFigures& rank : dataset.ranks) waited[rank.rank] += rank.waited_s;
  }
  for (const auto& [rank, seconds] : waited) {
    sample("paceline_time_seconds_total", with(with(labels, "rank", std::to_string(rank)), "kind", "data_wait"),
           seconds);
  }
}

std::string PrometheusText::text() const {
  std::string text;
  for (const MetricMeaning& meaning : kMeanings) {
    const auto found = samples_.find(meaning.name);
    if (found == samples_.end()) continue;
    text += std::string("# HELP ") + meaning.name + " " + meaning.what + "\n";
    text += std::string("# TYPE ") + meaning.name + " " + meaning.kind + "\n" + found->second;
  }
  return text;
}

}  // namespace paceline::dashboard
