#include "paceline/data/reader/statistics_text.h"

#include <algorithm>
#include <cstdio>

namespace paceline::data {
namespace {

template <typename... Values>
std::string line(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return std::string(text) + "\n";
}

// 1234567 as "1,234,567".
std::string grouped(double number) {
  std::string digits = std::to_string(static_cast<long long>(number));
  for (auto place = static_cast<int64_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<size_t>(place), ",");
  }
  return digits;
}

}  // namespace

std::string statistics_text(const DatasetFigures& figures) {
  const std::vector<OperatorFigures>& steps = figures.steps;
  const auto is_new = [](const OperatorFigures& step) {
    return step.num_task_outputs_generated == 0 && !is_stuck(step);
  };
  if (std::ranges::all_of(steps, is_new)) return "";
  std::string text;
  for (size_t number = 0; number < steps.size(); ++number) {
    const OperatorFigures& step = steps[number];
    const int64_t blocks = step.num_task_outputs_generated;
    const auto mean = [&](double sum) { return blocks == 0 ? 0 : sum / static_cast<double>(blocks); };
    text += "Operator " + std::to_string(number) + " " + step.name + ": " + std::to_string(blocks) + " blocks\n";
    const int64_t rows_in = step.num_row_inputs_received;
    const auto rows = static_cast<double>(step.rows_task_outputs_generated);
    const auto bytes = static_cast<double>(step.bytes_task_outputs_generated);
    text += "* Rows: " + (rows_in > 0 ? std::to_string(rows_in) + " in, " : std::string()) +
            line("%.0f out, %.0f in a block", rows, mean(rows));
    text += line("* Bytes: %.1f MB out, %.1f MB in a block", bytes / 1e6, mean(bytes) / 1e6);
    text += line("* Busy: %.3f s in all threads", step.block_generation_time);
    text += line("* Time of a block: %.1f ms min, %.1f ms max, %.1f ms mean, %.1f ms median, %.1f ms at 95 %%",
                 step.block_generation_time_min * 1e3, step.block_generation_time_max * 1e3,
                 mean(step.block_generation_time) * 1e3, step.block_generation_time_p50 * 1e3,
                 step.block_generation_time_p95 * 1e3);
    if (is_stuck(step)) text += line("* At work: on a block for %.0f s now", step.task_running_time_max);
    if (step.task_submission_backpressure_time > 0) {
      text += line("* Waited: %.3f s for a process that calls functions", step.task_submission_backpressure_time);
    }
  }
  if (const ReadAheadFigures& ahead = figures.read_ahead; ahead.windows_read > 0) {
    text += line("Read ahead: %ld windows of blocks; consumers have taken %ld", static_cast<long>(ahead.windows_read),
                 static_cast<long>(ahead.windows_taken));
    const int64_t shared = ahead.windows_taken - ahead.windows_read;
    if (shared > 0) text += line("* Shared: %ld windows did not have to be read again", static_cast<long>(shared));
    text += line("* In memory: %ld blocks, %.1f MB", static_cast<long>(ahead.num_external_outqueue_blocks),
                 static_cast<double>(ahead.num_external_outqueue_bytes) / 1e6);
    text += line("* Waited: threads %.3f s for consumers to make room; consumers %.3f s for windows",
                 ahead.task_output_backpressure_time, ahead.input_wait_time);
  }
  // A step that reads holds those before it no more than a function does: each has only its own time.
  const auto busiest = std::ranges::max_element(steps, {}, &OperatorFigures::block_generation_time);
  if (busiest->block_generation_time == 0) return text;
  return text + "Bottleneck: " + busiest->name + ", which makes " + grouped(rows_per_second(*busiest)) +
         " rows/s in one thread\n";
}

}  // namespace paceline::data
