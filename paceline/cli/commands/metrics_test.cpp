// paceline metrics
#include <gmock/gmock.h>

#include "paceline/cli/command.h"
#include "paceline/cli/runs_fixture.h"
#include "paceline/storage/local/durable.h"

namespace paceline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MetricsTest : public RunsTest {
 protected:
  MetricsTest() {
    run::RecordedRun run(run_, "mnist");
    run.train();
    for (int64_t report = 1; report <= 10; ++report) {
      run.report(report, {{"loss", 1.0 / static_cast<double>(report)}, {"eval", {{"top1", 0.5}}}, {"phase", "warm"}});
    }
  }
  std::string run_ = storage("mnist");
};

TEST_F(MetricsTest, AreShownWithTheirExtremes) {
  const std::string text = run_program("metrics " + run_).output;
  EXPECT_THAT(text, AllOf(HasSubstr("eval/top1"), HasSubstr("loss       0.1   0.1  1    10      10\n"),
                          HasSubstr("phase      warm")));
  const Json json = Json::parse(run_program("metrics --json " + run_).output);
  EXPECT_EQ(json["metrics"]["loss"]["last"], 0.1);
  EXPECT_EQ(json["metrics"]["loss"]["series"]["points"].size(), 10u);
}

TEST_F(MetricsTest, AreDrawn) {
  EXPECT_THAT(run_command_line("LC_ALL=C " PACELINE_PROGRAM " metrics --plot loss " + run_).output,
              AllOf(StartsWith("mnist: loss\n"), HasSubstr("*"), HasSubstr("report")));
  EXPECT_THAT(run_command_line("LC_ALL=C.UTF-8 " PACELINE_PROGRAM " metrics --plot loss " + run_).output,
              HasSubstr("┤"));
  EXPECT_EQ(run_program("metrics --plot loss -o " + (home_ / "loss.png") + " " + run_).exit_code, kDone);
  EXPECT_THAT(storage::read_file(home_ / "loss.png").ValueOrDie(), StartsWith("\x89PNG"));
  EXPECT_EQ(run_program("metrics --plot loss -o " + (home_ / "loss.svg") + " " + run_).exit_code, kDone);
  EXPECT_THAT(storage::read_file(home_ / "loss.svg").ValueOrDie(), StartsWith("<svg"));
}

TEST_F(MetricsTest, ExplainWhatCannotBeDrawn) {
  EXPECT_THAT(run_program("metrics --plot los " + run_).output, HasSubstr("did you mean \"loss\"?"));
  EXPECT_THAT(run_program("metrics --plot phase " + run_).output, HasSubstr("no numbers called \"phase\""));
  EXPECT_THAT(run_program("metrics --plot loss -o x.jpg " + run_).output, HasSubstr(".png or .svg"));
  EXPECT_EQ(run_program("metrics -o x.png " + run_).exit_code, kWrongUse) << "which one?";
}

}  // namespace
}  // namespace paceline::cli
