// What nodes, ranks and datasets did, from the samples in the runs' folders.
#include <cmath>
#include <limits>

#include "paceline/core/clock.h"
#include "paceline/dashboard/api.h"
#include "paceline/dashboard/api_internal.h"
#include "paceline/views/data_summary.h"
#include "paceline/views/node_samples.h"
#include "paceline/views/step_times.h"

namespace paceline::dashboard {
namespace {

constexpr int64_t kMostSeconds = 1'000'000'000'000;  // since the Unix epoch

double seconds_now() {
  return to_seconds(SystemClock().now());
}

// The part of the time that is asked for, in so many points if nobody says otherwise.
arrow::Result<views::SampleRange> range_of(const Call& call, int64_t usual_points) {
  ARROW_ASSIGN_OR_RAISE(const int64_t points, call.query.number("points", usual_points, 1, 10'000));
  ARROW_ASSIGN_OR_RAISE(const int64_t from, call.query.number("from", 0, 0, kMostSeconds));
  ARROW_ASSIGN_OR_RAISE(const int64_t to, call.query.number("to", kMostSeconds, 0, kMostSeconds));
  constexpr double kEver = std::numeric_limits<double>::infinity();
  return views::SampleRange{.from = static_cast<double>(from),
                            .to = to == kMostSeconds ? kEver : static_cast<double>(to),
                            .points = static_cast<size_t>(points)};
}

// Whether it may do something now.
bool goes_on(views::DriverState driver) {
  return driver == views::DriverState::alive || driver == views::DriverState::elsewhere;
}

}  // namespace

arrow::Result<Response> Api::all_nodes(const Call& call) {
  constexpr size_t kMostRuns = 200;
  ARROW_ASSIGN_OR_RAISE(const views::RunPage page, runs_.list({.limit = kMostRuns}));
  AllNodesAnswer answer;
  const double now = seconds_now();
  for (const views::ListedRun& listed : page.runs) {
    if (!goes_on(listed.driver)) continue;
    // A run that cannot be read shall not cost the others.
    (void)runs_.with_record(listed.id, [&](const track::RunRecord& record) {
      answer.runs.push_back({.id = listed.id, .name = listed.name, .nodes = views::node_summaries(record, now)});
      return arrow::Status::OK();
    });
  }
  return json_response(answer);
}

arrow::Result<Response> Api::nodes(const Call& call) {
  NodesAnswer answer;
  ARROW_RETURN_NOT_OK(runs_.with_record(call.part("id"), [&answer](const track::RunRecord& record) {
    answer.nodes = views::node_summaries(record, seconds_now());
    for (const views::SampledSource& source : views::sampled_sources(record.run.path)) {
      if (source.source == "data") answer.data_processes.push_back(source.name);
    }
    return arrow::Status::OK();
  }));
  return json_response(answer);
}

arrow::Result<Response> Api::samples(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const views::SampleRange range, range_of(call, 400));
  const std::string node = call.query.text("node"), data = call.query.text("data");
  if (node.empty() == data.empty()) {
    return arrow::Status::Invalid("wanted `node` with a node's name or `data` with a data process's number");
  }
  const views::SampledSource of{.source = node.empty() ? "data" : "node", .name = node.empty() ? data : node};
  ARROW_ASSIGN_OR_RAISE(const std::string folder, runs_.folder_of(call.part("id")));
  ARROW_ASSIGN_OR_RAISE(const views::SampleCurves curves,
                        views::sample_curves(folder, of, parts_of(call.query.text("names")), range));
  const auto finite = [](const std::vector<double>& values) {
    std::vector<MaybeNumber> numbers;
    for (const double value : values) numbers.push_back(std::isfinite(value) ? MaybeNumber(value) : std::nullopt);
    return numbers;
  };
  SamplesAnswer answer{.first = curves.first,
                       .last = curves.last,
                       .seconds = curves.seconds,
                       .time = curves.time,
                       .names = curves.names,
                       .about = curves.about};
  for (const auto& [name, curve] : curves.curves) {
    answer.series[name] = {.mean = finite(curve.mean), .min = finite(curve.min), .max = finite(curve.max)};
  }
  return json_response(answer);
}

arrow::Result<Response> Api::step_times(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const views::SampleRange range, range_of(call, 90));
  views::StepTimes times;
  ARROW_RETURN_NOT_OK(runs_.with_record(call.part("id"), [&](const track::RunRecord& record) {
    times = views::step_times(record, range, seconds_now());
    return arrow::Status::OK();
  }));
  return json_response(times);
}

arrow::Result<Response> Api::all_data(const Call& call) {
  ARROW_ASSIGN_OR_RAISE(const int64_t limit, call.query.number("limit", 30, 1, 1000));
  constexpr size_t kMostRuns = 200;  // that are looked at
  ARROW_ASSIGN_OR_RAISE(const views::RunPage page, runs_.list({.limit = kMostRuns}));
  AllDataAnswer answer;
  for (const views::ListedRun& listed : page.runs) {
    if (listed.gone || std::ssize(answer.runs) == limit) continue;
    // A run that cannot be read shall not cost the others.
    (void)runs_.with_record(listed.id, [&](const track::RunRecord& record) {
      auto datasets = views::dataset_summaries(record, goes_on(listed.driver), seconds_now());
      if (datasets.empty()) return arrow::Status::OK();
      answer.runs.push_back({.id = listed.id,
                             .name = listed.name,
                             .state = listed.state,
                             .driver = listed.driver,
                             .since = listed.since,
                             .datasets = std::move(datasets)});
      return arrow::Status::OK();
    });
  }
  return json_response(answer);
}

arrow::Result<Response> Api::data(const Call& call) {
  DataAnswer answer;
  ARROW_RETURN_NOT_OK(runs_.with_record(call.part("id"), [&answer](const track::RunRecord& record) {
    const bool is_live = goes_on(views::with_fate(record.run).driver);
    answer.datasets = views::dataset_summaries(record, is_live, seconds_now());
    return arrow::Status::OK();
  }));
  return json_response(answer);
}

}  // namespace paceline::dashboard
