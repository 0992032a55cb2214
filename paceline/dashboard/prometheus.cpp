#include "paceline/dashboard/prometheus.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "paceline/core/clock.h"
#include "paceline/core/json.h"
#include "paceline/policy/state.h"

namespace paceline::dashboard {
namespace {

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
    // For dashboards that were made for Ray.
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
