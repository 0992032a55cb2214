#include "paceline/track/run_record.h"

#include <algorithm>

#include "paceline/core/metric_values.h"

namespace paceline::track {
namespace {

void add_value(const std::string& name, const Json& value, const HistoryRow& row, RunRecord& record) {
  if (value.is_object()) {
    for (const auto& [inner, nested] : value.items()) add_value(name + "/" + inner, nested, row, record);
    return;
  }
  if (name.ends_with(kKeysMember)) return;
  MetricRecord& metric = record.metrics[name];
  metric.last = value;
  metric.report = row.report;
  metric.time = row.time;
  if (value.is_number()) metric.series.add(row.report, value.get<double>());
}

}  // namespace

void add_metrics(const HistoryRow& row, RunRecord& record) {
  const Json* metrics = shown_metrics(row);
  if (metrics == nullptr) return;
  record.run.report = row.report;
  record.run.metrics = *metrics;
  if (!metrics->is_object()) return;
  for (const auto& [name, value] : metrics->items()) add_value(name, value, row, record);
}

bool is_over(const RunRow& run) {
  return final_state_of(run.state).has_value();
}

}  // namespace paceline::track
