#include "paceline/track/run_record.h"

#include <algorithm>

#include "paceline/core/metric_values.h"

namespace paceline::track {
namespace {

using Visit = std::function<void(const std::string& name, const Json& value)>;

void visit_value(const std::string& name, const Json& value, const Visit& visit) {
  if (value.is_object()) {
    for (const auto& [inner, nested] : value.items()) visit_value(name + "/" + inner, nested, visit);
    return;
  }
  if (!name.ends_with(kKeysMember)) visit(name, value);
}

}  // namespace

void visit_metrics(const Json& metrics, const Visit& visit) {
  if (!metrics.is_object()) return;
  for (const auto& [name, value] : metrics.items()) visit_value(name, value, visit);
}

void add_metrics(const HistoryRow& row, RunRecord& record) {
  const Json* metrics = shown_metrics(row);
  if (metrics == nullptr) return;
  record.run.report = row.report;
  record.run.metrics = *metrics;
  visit_metrics(*metrics, [&](const std::string& name, const Json& value) {
    MetricRecord& metric = record.metrics[name];
    metric.last = value;
    metric.report = row.report;
    metric.time = row.time;
    if (value.is_number()) metric.series.add(row.report, value.get<double>());
  });
}

bool is_over(const RunRow& run) {
  return final_state_of(run.state).has_value();
}

}  // namespace paceline::track
