// Runs as Prometheus reads them: the text format 0.0.4. Pure.
//
// Exported is what is known of a run now: its state, what its driver says of its workers, what its data processes
// wrote. Counters count since the process began that they are of.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "paceline/track/run_record.h"
#include "paceline/views/node_samples.h"
#include "paceline/views/run_list.h"
#include "paceline/views/run_summary.h"

namespace paceline::dashboard {

using Labels = std::vector<std::pair<std::string, std::string>>;
/// The labels with another behind them.
Labels with(Labels labels, std::string name, std::string value);

class PrometheusText {
 public:
  void add(const views::ListedRun& listed, const views::RunSummary& run, const track::RunRecord& record);
  /// A node of that run, with its GPUs and the run's processes there.
  void add_node(const std::string& run_id, const std::string& run_name, const views::NodeSummary& node);
  /// All that was added, each metric with its kind and meaning once.
  std::string text() const;
  /// Of all metrics that there may be.
  static std::vector<std::string> names();

 private:
  void add_workers(const Labels& labels, const views::RunSummary& run);
  void add_data(const Labels& labels, const views::RunSummary& run);
  void add_process(const Labels& labels, const Labels& of_ray, const views::NodeSummary& node,
                   const ProcessSample& process);
  void sample(const std::string& name, Labels labels, double value);
  /// What a table says of a record (prometheus_samples.cpp).
  template <class Rows, class Record>
  void add_rows(const Rows& rows, const Record& record, const Labels& labels);

  std::map<std::string, std::string> samples_;  // by metric
};

/// Whether the run is of interest: it goes on, or has ended within the last hour.
bool is_exported(const views::ListedRun& run);

/// A value between quotation marks, with what may not stand there escaped.
std::string label_text(const std::string& value);

}  // namespace paceline::dashboard
