#include "paceline/cli/commands/profile_summary.h"

#include <gmock/gmock.h>

#include "paceline/stacks/wait_watch.h"

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

stacks::Profile example() {
  stacks::Profile profile{.worker = 2, .rank = 1, .node = "vm", .pid = 43, .rate = 99, .seconds = 5};
  profile.ways = {"signal", "py-spy"};
  stacks::ProfileBuilder builder(profile);
  const stacks::StackFrame root{.function = "main", .file = "train.cpp", .line = 3};
  const stacks::StackFrame step{.function = "step", .file = "train.cpp", .line = 10};
  const stacks::StackFrame start{.function = "_start"};
  builder.add({.name = "train"}, {start, root, step}, 3);
  builder.add({.name = "train"}, {start, root}, 1);
  builder.add({.name = "MainThread", .language = stacks::kPythonCode}, {{.function = "f", .file = "a.py", .line = 7}},
              9);
  return profile;
}

TEST(ProfileSummary, ListsFunctionsOfEachLanguage) {
  EXPECT_EQ(summary_of({example()}),
            "rank 1, process 43 on node vm, 5.0 s at 99 Hz: 9 samples of Python, 4 samples of C++\n"
            "\n"
            "most own time in Python, of 9 samples\n"
            "OWN      TOTAL    FUNCTION\n"
            "100.0 %  100.0 %  f (a.py:7)\n"
            "\n"
            "most time with what they call in Python, of 9 samples\n"
            "OWN      TOTAL    FUNCTION\n"
            "100.0 %  100.0 %  f (a.py:7)\n"
            "\n"
            "most own time in C++, of 4 samples\n"
            "OWN     TOTAL    FUNCTION\n"
            "75.0 %  75.0 %   step (train.cpp:10)\n"
            "25.0 %  100.0 %  main (train.cpp:3)\n"
            "\n"
            "most time with what they call in C++, of 4 samples\n"
            "OWN     TOTAL    FUNCTION\n"
            "25.0 %  100.0 %  main (train.cpp:3)\n"
            "75.0 %  75.0 %   step (train.cpp:10)\n"
            "\n");
}

TEST(ProfileSummary, TellsWhatEachThreadDidWhileItDidNotWait) {
  stacks::Profile profile{.rank = 0, .pid = 43, .rate = 50, .seconds = 2, .ways = {"ptrace"}};
  stacks::ProfileBuilder builder(profile);
  builder.add({.tid = 43, .name = "train"}, {{.function = "step"}, {.function = "poll"}}, 40);
  builder.add({.tid = 43, .name = "train"}, {{.function = stacks::kWantsProcessor}}, 10);
  builder.add({.tid = 44, .name = "pool"}, {{.function = "idle"}}, 100);
  EXPECT_EQ(waits_summary_of({profile}),
            "rank 0, process 43, 2.0 s at 50 Hz: 150 samples of C++\n"
            "  THREAD            WAITS   WANTS PROCESSOR  RUNS\n"
            "  train (43, main)  0.80 s  0.20 s           1.00 s\n"
            "  1 thread waited all the time\n"
            "\n"
            "most own waiting in C++, of 50 samples\n"
            "OWN     TOTAL   FUNCTION\n"
            "80.0 %  80.0 %  poll\n"
            "20.0 %  20.0 %  [wants a processor]\n"
            "\n"
            "most waiting with what they call in C++, of 50 samples\n"
            "OWN     TOTAL   FUNCTION\n"
            "80.0 %  80.0 %  poll\n"
            "20.0 %  20.0 %  [wants a processor]\n"
            "\n");
}

TEST(ProfileSummary, ListsTenAndLeavesOutWhatHasNothing) {
  stacks::Profile profile{.ways = {"signal"}};
  stacks::ProfileBuilder builder(profile);
  for (int i = 0; i < 12; ++i) {
    builder.add({}, {{.function = "start"}, {.function = "root"}, {.function = "f" + std::to_string(i)}}, i + 1);
  }
  const std::string text = summary_of({profile});
  EXPECT_THAT(text, HasSubstr(" f2\n"));
  EXPECT_THAT(text, Not(HasSubstr(" f1\n")));
  const Json json = summary_json({profile}, "/runs/a/profiles/t");
  EXPECT_EQ(json["folder"], "/runs/a/profiles/t");
  EXPECT_EQ(json["functions"]["C++"]["own"].size(), 10u);
  EXPECT_EQ(json["functions"]["C++"]["total"][0]["function"], "root");
  EXPECT_EQ(json["functions"]["C++"]["total"][0]["total"], 1.0);
  EXPECT_EQ(json["profiles"][0]["samples"]["C++"], 78);
}

TEST(ProfileSummary, SaysWhatIsMissing) {
  stacks::Profile idle{.worker = 1, .rank = 0, .rate = 99, .seconds = 5, .ways = {"signal"}};
  stacks::Profile dead{.worker = 2, .problems = {"the process has ended"}};
  EXPECT_EQ(summary_of({idle, dead}),
            "rank 0, 5.0 s at 99 Hz: no samples, it used no processor time\n"
            "worker 2\n"
            "  the process has ended\n\n");
  EXPECT_EQ(first_problem({idle, dead}), "worker 2: the process has ended");
  EXPECT_FALSE(is_sampled(dead));
}

}  // namespace
}  // namespace paceline::cli
