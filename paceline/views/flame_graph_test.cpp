// A profile as a tree of functions.
#include "paceline/views/flame_graph.h"

#include <gmock/gmock.h>

namespace paceline::views {
namespace {

using ::testing::ElementsAre;

stacks::CountedStack stack(std::vector<int64_t> frames, int64_t count) {
  return {.frames = std::move(frames), .count = count};
}

TEST(FlameGraphOf, HasEachFunctionAndEachWayToItOnce) {
  const stacks::StackFrame main{.function = "main", .file = "train.cpp", .line = 9, .module = "train"};
  stacks::StackFrame step{.function = "step", .file = "train.cpp", .line = 3, .module = "train"};
  stacks::Profile first{.worker = 2, .rank = 0, .rate = 99, .ways = {"signal"}, .frames = {main, step}};
  step.line = 4;  // another line of the same function
  first.frames.push_back(step);
  first.threads = {{.tid = 7, .name = "train", .stacks = {stack({0, 1}, 3), stack({0, 2}, 2), stack({0}, 1)}},
                   {.tid = 8, .name = "idle", .stacks = {}}};
  stacks::Profile second{.worker = 3, .rank = 1, .rate = 99, .ways = {"signal"}, .frames = {step, main}};
  second.threads = {{.tid = 9, .name = "train", .stacks = {stack({1, 0, 0}, 5)}}};
  const FlameGraph graph = flame_graph_of({.profile = {.name = "one"}, .taken = {first, second}});
  EXPECT_EQ(graph.profile.name, "one");
  ASSERT_EQ(graph.frames.size(), 2u);
  EXPECT_EQ(graph.frames[1], (FlameFrame{.function = "step", .file = "train.cpp", .line = 3, .module = "train"}));
  EXPECT_THAT(graph.frame, ElementsAre(0, 1, 1));
  EXPECT_THAT(graph.parent, ElementsAre(-1, 0, 1)) << "step called itself";
  ASSERT_EQ(graph.processes.size(), 2u);
  EXPECT_EQ(graph.processes[1].rank, 1);
  ASSERT_EQ(graph.threads.size(), 3u);
  EXPECT_EQ(graph.threads[0].name, "train");
  EXPECT_THAT(graph.threads[0].nodes, ElementsAre(0, 1));
  EXPECT_THAT(graph.threads[0].counts, ElementsAre(1, 5));
  EXPECT_EQ(graph.threads[2].process, 1);
  EXPECT_THAT(graph.threads[2].nodes, ElementsAre(2));
  EXPECT_THAT(graph.threads[2].counts, ElementsAre(5));
}

TEST(FlameGraphOf, SaysWhichThreadsHadNothingToDo) {
  stacks::Profile waits{.pid = 7, .rate = 10, .seconds = 5, .frames = {{.function = "poll"}}};
  waits.threads = {{.tid = 7, .name = "main", .stacks = {stack({0}, 50)}},
                   {.tid = 8, .name = "pool", .stacks = {stack({0}, 50)}},
                   {.tid = 9, .name = "busy", .stacks = {stack({0}, 40)}},
                   {.tid = 10, .name = "later", .seconds = 2, .stacks = {stack({0}, 20)}}};
  const auto idle_in = [&](const std::string& kind) {
    std::vector<std::string> idle;
    for (const FlameThread& thread : flame_graph_of({.profile = {.kind = kind}, .taken = {waits}}).threads) {
      if (thread.is_idle) idle.push_back(thread.name);
    }
    return idle;
  };
  EXPECT_THAT(idle_in("off_cpu"), ElementsAre("pool", "later"));
  EXPECT_THAT(idle_in("cpu"), ElementsAre());
}

TEST(FlameGraphOf, NamesAreText) {
  const stacks::Profile profile{.frames = {{.function = "bad \xff name"}},
                                .threads = {{.name = "<b>", .stacks = {stack({0}, 1), stack({}, 4)}}}};
  const FlameGraph graph = flame_graph_of({.taken = {profile}});
  EXPECT_EQ(graph.frames[0].function, "bad \xef\xbf\xbd name");
  EXPECT_EQ(graph.threads[0].name, "<b>");
  EXPECT_THAT(graph.threads[0].counts, ElementsAre(1)) << "a stack without frames is none";
}

}  // namespace
}  // namespace paceline::views
