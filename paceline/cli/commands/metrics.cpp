// paceline metrics RUN [--plot NAME] [-o FILE] [--json]
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "paceline/cli/command.h"
#include "paceline/cli/run_lookup.h"
#include "paceline/cli/table.h"
#include "paceline/core/posix/locale.h"
#include "paceline/core/spelling.h"
#include "paceline/plot/chart.h"
#include "paceline/storage/local/durable.h"
#include "paceline/views/known_runs.h"

namespace paceline::cli {

using namespace views;
namespace {

struct MetricsSettings {
  std::string run;
  std::string plot;
  std::string output;
  bool as_json = false;
};

std::string table_of(const track::RunRecord& record) {
  if (record.metrics.empty()) return "run " + printable(record.run.name) + " has reported no metrics yet\n";
  Table table({"NAME", "LAST", "MIN", "MAX", "VALUES", "REPORT"});
  for (const auto& [name, metric] : record.metrics) {
    double least = HUGE_VAL, greatest = -HUGE_VAL;
    for (const track::SeriesPoint& point : metric.series.points()) {
      least = std::fmin(least, point.min);
      greatest = std::fmax(greatest, point.max);
    }
    const bool has_extremes = least <= greatest;
    const std::string last = metric.last.is_number()   ? number_text(metric.last.get<double>())
                             : metric.last.is_string() ? metric.last.get<std::string>()
                                                       : readable_json(metric.last);
    table.add({name, last, has_extremes ? number_text(least) : "", has_extremes ? number_text(greatest) : "",
               std::to_string(metric.series.count()), std::to_string(metric.report)});
  }
  return table.text(output_columns());
}

Json json_of(const track::RunRecord& record, const std::string& only) {
  Json json = {{"name", record.run.name}, {"path", record.run.path}, {"metrics", Json::object()}};
  for (const auto& [name, metric] : record.metrics) {
    if (only.empty() || name == only) json["metrics"][name] = metric;
  }
  return json;
}

arrow::Result<plot::Chart> chart_of(const track::RunRecord& record, const std::string& name) {
  const auto found = record.metrics.find(name);
  if (found == record.metrics.end() || found->second.series.points().empty()) {
    std::vector<std::string> names;
    for (const auto& [one, metric] : record.metrics) {
      if (metric.series.count() > 0) names.push_back(one);
    }
    std::string list;
    for (const std::string& one : names) list += (list.empty() ? "" : ", ") + one;
    return arrow::Status::KeyError("run ", record.run.name, " has no numbers called \"", name, "\"",
                                   "; it has: ", list.empty() ? "none" : list, suggestion(name, names));
  }
  plot::Chart chart{.title = printable(record.run.name + ": " + name), .x_title = "report", .points = {}};
  for (const track::SeriesPoint& point : found->second.series.points()) {
    chart.points.push_back({static_cast<double>(point.report), point.last, point.min, point.max});
  }
  return chart;
}

// "" for the name of a file that can be drawn into.
std::string problem_of_path(const std::string& path) {
  if (path.ends_with(".png") || path.ends_with(".svg")) return "";
  return "\"" + path + "\" names no kind of drawing; wanted a file that ends with .png or .svg";
}

arrow::Status write_drawing(const plot::Chart& chart, const std::string& path) {
  if (path.ends_with(".svg")) return storage::write_atomically(path, plot::draw_svg(chart));
  ARROW_ASSIGN_OR_RAISE(const std::string png, plot::draw_png(chart));
  return storage::write_atomically(path, png);
}

plot::TerminalStyle style() {
  plot::TerminalStyle style{.unicode = locale_has_utf8()};
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.columns = size.ws_col;
    style.rows = std::clamp<int>(size.ws_row - 2, 8, 30);  // the prompt below stays in sight
  }
  return style;
}

arrow::Status metrics(const MetricsSettings& settings) {
  ARROW_ASSIGN_OR_RAISE(const FoundRun found, find_run(settings.run));
  ARROW_ASSIGN_OR_RAISE(const track::RunRecord record, recorded_run(found.folder));
  if (settings.plot.empty()) {
    print(settings.as_json ? encode_json(json_of(record, "")) + "\n" : table_of(record));
    return arrow::Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(const plot::Chart chart, chart_of(record, settings.plot));
  if (!settings.output.empty()) ARROW_RETURN_NOT_OK(write_drawing(chart, settings.output));
  if (settings.as_json) {
    print(encode_json(json_of(record, settings.plot)) + "\n");
  } else if (settings.output.empty()) {
    print(plot::draw_in_terminal(chart, style()));
  }
  return arrow::Status::OK();
}

}  // namespace

void add_metrics(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("metrics", "Show a run's metrics, or draw one of them over its reports");
  command->footer(
      "Example: paceline metrics mnist --plot loss -o loss.png\n"
      "A long curve is drawn with at most 512 points, each with the lowest, the highest and the last of its values.");
  const auto settings = std::make_shared<MetricsSettings>();
  const auto run = add_run(*command);
  auto* plot = command->add_option("--plot", settings->plot, "Draw this metric; nested names as in eval/accuracy")
                   ->type_name("NAME");
  add_output(*command, settings->output, "Draw the curve into this file instead: .png or .svg")
      ->needs(plot)
      ->check(problem_of_path)
      ->type_name("FILE");
  const auto as_json = add_json(*command);
  command->callback([=, &exit_code] {
    settings->run = *run;
    settings->as_json = *as_json;
    exit_code = report(metrics(*settings));
  });
}

}  // namespace paceline::cli
