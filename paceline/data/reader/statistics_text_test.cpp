#include "paceline/data/reader/statistics_text.h"

#include <gtest/gtest.h>

namespace paceline::data {
namespace {

TEST(StatisticsText, NamesStepsAndWhatBoundsThem) {
  const OperatorFigures read{.name = "ReadParquet",
                             .num_task_outputs_generated = 4,
                             .rows_task_outputs_generated = 2000,
                             .bytes_task_outputs_generated = 8'000'000,
                             .block_generation_time = 0.5,
                             .block_generation_time_min = 0.1,
                             .block_generation_time_max = 0.2,
                             .block_generation_time_p50 = 0.11,
                             .block_generation_time_p95 = 0.19};
  const OperatorFigures map{.name = "Map(f)",
                            .num_task_outputs_generated = 4,
                            .num_row_inputs_received = 2000,
                            .rows_task_outputs_generated = 2000,
                            .block_generation_time = 1.0,
                            .task_submission_backpressure_time = 0.25};
  const ReadAheadFigures ahead{.num_external_outqueue_blocks = 2,
                               .num_external_outqueue_bytes = 4'000'000,
                               .windows_read = 4,
                               .windows_taken = 8,
                               .task_output_backpressure_time = 1.5,
                               .input_wait_time = 0.75};
  EXPECT_EQ(statistics_text({.steps = {read, map}, .read_ahead = ahead}),
            "Operator 0 ReadParquet: 4 blocks\n"
            "* Rows: 2000 out, 500 in a block\n"
            "* Bytes: 8.0 MB out, 2.0 MB in a block\n"
            "* Busy: 0.500 s in all threads\n"
            "* Time of a block: 100.0 ms min, 200.0 ms max, 125.0 ms mean, 110.0 ms median, 190.0 ms at 95 %\n"
            "Operator 1 Map(f): 4 blocks\n"
            "* Rows: 2000 in, 2000 out, 500 in a block\n"
            "* Bytes: 0.0 MB out, 0.0 MB in a block\n"
            "* Busy: 1.000 s in all threads\n"
            "* Time of a block: 0.0 ms min, 0.0 ms max, 250.0 ms mean, 0.0 ms median, 0.0 ms at 95 %\n"
            "* Waited: 0.250 s for a process that calls functions\n"
            "Read ahead: 4 windows of blocks; consumers have taken 8\n"
            "* Shared: 4 windows did not have to be read again\n"
            "* In memory: 2 blocks, 4.0 MB\n"
            "* Waited: threads 1.500 s for consumers to make room; consumers 0.750 s for windows\n"
            "Bottleneck: Map(f), which makes 2,000 rows/s in one thread\n");
}

TEST(StatisticsText, SaysWhereABlockTakesLong) {
  const auto text =
      statistics_text({.steps = {{.name = "Map(f)", .num_tasks_running = 1, .task_running_time_max = 75}}});
  EXPECT_NE(text.find("Map(f)"), std::string::npos) << text;
  EXPECT_NE(text.find("* At work: on a block for 75 s now\n"), std::string::npos) << text;
}

TEST(StatisticsText, IsEmptyBeforeAnythingWasRead) {
  EXPECT_EQ(statistics_text({.steps = {{.name = "ReadParquet"}}}), "");
  EXPECT_EQ(statistics_text({}), "");
}

}  // namespace
}  // namespace paceline::data
