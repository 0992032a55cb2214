#include "paceline/dashboard/prometheus.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "paceline/core/clock.h"
#include "paceline/core/json.h"
#include "paceline/core/progress.h"
#include "paceline/policy/state.h"

namespace paceline::dashboard {
namespace {

// As paceline_time_seconds_total names what a rank's time went into.
constexpr std::pair<const char*, double TimeSpent::*> kSpent[] = {
    {"compute", &TimeSpent::compute_s},       {"data_wait", &TimeSpent::data_s},    {"comm", &TimeSpent::collectives_s},
    {"checkpoint", &TimeSpent::checkpoint_s}, {"starting", &TimeSpent::starting_s}, {"other", &TimeSpent::other_s}};

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
    {"paceline_time_seconds_total", "counter", "What a rank of this attempt has spent its time on, by kind"},
    {"paceline_data_wait_seconds_total", "counter",
     "How long a rank has waited for batches of a dataset: a part of its paceline_time_seconds_total, data_wait"},
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

}  // namespace

Labels with(Labels labels, std::string name, std::string value) {
  labels.emplace_back(std::move(name), std::move(value));
  return labels;
}

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
    // Of a driver that is in a callback nobody knows it. Zero would be the end of what was counted.
    if (worker.contains("spent")) {
      const auto spent = worker.at("spent").get<TimeSpent>();
      for (const auto& [kind, seconds] : kSpent)
        sample("paceline_time_seconds_total", with(of_rank, "kind", kind), spent.*seconds);
    }
    const auto resident = worker.value("resident_bytes", int64_t{0});
    if (resident == 0) continue;
    sample("paceline_process_cpu_seconds_total", of_rank, worker.value("cpu_s", 0.0));
    sample("paceline_process_rss_bytes", of_rank, static_cast<double>(resident));
  }
}

void PrometheusText::add_data(const Labels& labels, const views::RunSummary& run) {
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
    for (const RankFigures& rank : dataset.ranks) {
      sample("paceline_data_wait_seconds_total", with(of_dataset, "rank", std::to_string(rank.rank)), rank.waited_s);
    }
  }
}

std::vector<std::string> PrometheusText::names() {
  std::vector<std::string> names;
  for (const MetricMeaning& meaning : kMeanings) names.emplace_back(meaning.name);
  return names;
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
