// Reports as fast as two workers can make them. PACELINE_FLOOD_REPORTS of each (the suite labelled `full` has 600,000:
// 10,000 a second for a minute).
#include <gmock/gmock.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "paceline/controller/run_fixture.h"
#include "paceline/rpc/report_bytes.h"
#include "paceline/run/control_client.h"

namespace paceline::controller {
namespace {

int64_t flood_reports() {
  const char* text = std::getenv("PACELINE_FLOOD_REPORTS");
  return text == nullptr ? 3000 : std::strtoll(text, nullptr, 10);
}

// The most memory that this process has had since reset_peak(), in bytes.
int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtoll(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

#ifdef __SANITIZE_ADDRESS__
constexpr int64_t kMostMemory = int64_t{1} << 30;  // 256 MiB of what was freed are kept, with red zones
#else
constexpr int64_t kMostMemory = int64_t{256} << 20;
#endif

class Flood : public RunTest {};

TEST_F(Flood, OfReportsKeepsOrderLosesNothingAndTakesNoMemory) {
  const int64_t reports = flood_reports();
  request_.run_config.trackers = {{.kind = "tensorboard"}, {.kind = "json_lines"}};
  request_.shows_output = [](int64_t, const std::string&) { return false; };
  callback_ = std::make_shared<TestCallback>();
  int64_t told = 0;
  callback_->report = [&](const RunContext&, const std::vector<Metrics>& metrics, const Checkpoint*) {
    EXPECT_EQ(metrics[1].get<int64_t>("step"), ++told);
  };
  reset_peak();
  const int64_t before = peak_memory();
  // On a busy machine one rank could be further ahead of the other than is allowed; a checkpoint lets them meet.
  const RunOutcome outcome = run({{"reports", reports}, {"checkpoint_every", 750}, {"wait_for_commit", true}});
  EXPECT_LT(peak_memory() - before, kMostMemory);
  ASSERT_EQ(outcome.state, FinalState::finished) << outcome.error;
  EXPECT_EQ(told, reports);

  std::array<int64_t, 2> rows{};  // of each rank
  ASSERT_TRUE(track::visit_history(folder_.path(), [&](const track::HistoryRow& row) {
                if (row.rank == track::kWholeGroup) return;  // a checkpoint
                EXPECT_EQ(row.report, ++rows.at(static_cast<size_t>(row.rank)));
                EXPECT_EQ(row.metrics["step"], row.report);
              }).ok());
  EXPECT_EQ(rows, (std::array{reports, reports}));

  // Of a long flood a tracker may leave the end to the run's next start; what it has is whole and in order.
  int64_t tracked = 0;
  std::ifstream lines(folder_ / "metrics_flat.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    ASSERT_EQ(row["report"], row["checkpoint"].is_null() ? ++tracked : tracked) << line;
  }
  EXPECT_GT(tracked, 0);
  if (tracked < reports) {
    std::ifstream log(folder_ / "logs/controller.log");
    const std::string text{std::istreambuf_iterator<char>(log), {}};
    EXPECT_THAT(text, ::testing::HasSubstr("tracker json_lines has not taken all"));
  }
}

// The ranks wait for answers long before they have made as many reports as small ones may be ahead.
TEST_F(Flood, OfLargeReportsGoesOn) {
  constexpr int64_t kReports = 3 * (rpc::kReportBytesAhead >> 21);
  const RunOutcome outcome = run({{"reports", kReports}, {"text_bytes", int64_t{1} << 20}});
  EXPECT_EQ(outcome.state, FinalState::finished) << outcome.error;
  EXPECT_EQ(history().size(), static_cast<size_t>(2 * kReports));
}

// The ranks stand in report() for longer than counts as a hang; who asks for the status is told whom they wait for.
TEST_F(Flood, RanksThatWaitForASlowCallbackDoNotHang) {
  request_.run_config.debug_config = {
      .hang_action = "fail", .hang_floor_s = 0.2, .hang_factor = 1, .hang_start_s = 0.2};
  callback_ = std::make_shared<TestCallback>();
  std::string waits_for;
  callback_->report = [&](const RunContext&, const std::vector<Metrics>& metrics, const Checkpoint*) {
    if (metrics[0].get<int64_t>("step") != 100) return;
    waits_for = run::request_status(folder_.path()).ValueOrDie()["waits_for"][0].get<std::string>();
  };
  const RunOutcome outcome = run({{"reports", 1000}});
  EXPECT_EQ(outcome.state, FinalState::finished) << outcome.error;
  EXPECT_THAT(waits_for, ::testing::HasSubstr("TestCallback::after_report"));
}

}  // namespace
}  // namespace paceline::controller
