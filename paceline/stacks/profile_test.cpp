#include "paceline/stacks/profile.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace paceline::stacks {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

StackFrame frame(const std::string& function, int64_t line = 0) {
  return {.function = function, .file = line > 0 ? "train.cpp" : "", .line = line, .module = "train"};
}

// main calls step, which runs at two lines, and calls itself once.
Profile example(int64_t rank) {
  Profile profile{.worker = rank + 1, .rank = rank, .node = "vm", .pid = 40 + rank, .rate = 100, .seconds = 1};
  profile.ways = {"signal"};
  ProfileBuilder builder(profile);
  const ThreadProfile thread{.tid = 40 + rank, .name = "train"};
  builder.add(thread, {frame("main", 3), frame("step", 10)}, 2);
  builder.add(thread, {frame("main", 3), frame("step", 11)}, 5);
  builder.add(thread, {frame("main", 3), frame("step", 10), frame("step", 11)}, 1);
  builder.add(thread, {frame("main", 3), frame("step", 10)}, 1);
  return profile;
}

TEST(Profile, EqualStacksAreCountedTogether) {
  const Profile profile = example(0);
  EXPECT_EQ(profile.frames.size(), 3u);
  ASSERT_EQ(profile.threads.size(), 1u);
  EXPECT_EQ(profile.threads[0].stacks.size(), 3u);
  EXPECT_EQ(profile.threads[0].stacks[0].count, 3);
  EXPECT_EQ(count_of({profile, profile}), 18);
  EXPECT_EQ(count_of({profile}, kPythonCode), 0);
}

TEST(Profile, TravelsAsLines) {
  const Profiles profiles = {example(0), example(1)};
  const std::string lines = encode_lines(profiles);
  EXPECT_EQ(decode_profiles(lines), profiles);
  EXPECT_EQ(decode_profiles("{\n" + lines + "[]\n").size(), 2u);
  Profile unsound = example(0);
  unsound.threads[0].stacks[0].frames.push_back(3);
  EXPECT_TRUE(decode_profiles(encode_lines({unsound})).empty());
}

TEST(Profile, AsFoldedText) {
  EXPECT_EQ(to_folded({example(1)}),
            "rank 1;train (C++);main (train.cpp);step (train.cpp) 8\n"
            "rank 1;train (C++);main (train.cpp);step (train.cpp);step (train.cpp) 1\n");
  Profile odd{.worker = 7};
  ProfileBuilder(odd).add({.tid = 3}, {{.function = "a;b\nc"}, {.module = "libmkl.so"}}, 4);
  EXPECT_EQ(to_folded({odd}), "worker 7;thread 3 (C++);a,b c;? (libmkl.so) 4\n");
}

TEST(Profile, ForSpeedscope) {
  const Json json = to_speedscope({example(0), example(1)}, "mnist");
  EXPECT_EQ(json["$schema"], "https://www.speedscope.app/file-format-schema.json");
  EXPECT_EQ(json["name"], "mnist");
  const Json frames = json["shared"]["frames"];
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(encode_json(frames[0]), R"j({"file":"train.cpp","line":3,"name":"main (train.cpp)"})j");
  EXPECT_EQ(encode_json(frames[1]), R"j({"file":"train.cpp","line":10,"name":"step (train.cpp)"})j");
  ASSERT_EQ(json["profiles"].size(), 2u);
  const Json& one = json["profiles"][1];
  EXPECT_EQ(one["type"], "sampled");
  EXPECT_EQ(one["name"], "rank 1, train (C++)");
  EXPECT_EQ(one["unit"], "seconds");
  EXPECT_EQ(encode_json(one["samples"]), "[[0,1],[0,1],[0,1,1]]");
  EXPECT_EQ(encode_json(one["weights"]), "[0.03,0.05,0.01]");
  EXPECT_NEAR(one["endValue"].get<double>(), 0.09, 1e-9);
  EXPECT_EQ(json["activeProfileIndex"], 0);
  Profile little{.rank = 2, .rate = 100};
  ProfileBuilder(little).add({.tid = 3, .name = "sampler"}, {{.function = "sample"}}, 1);
  EXPECT_EQ(to_speedscope({little, example(0)}, "mnist")["activeProfileIndex"], 1) << "with the thread that has most";
}

TEST(Profile, RanksAreMergedByThreadsNames) {
  Profile second = example(1);
  second.problems = {"something"};
  const Profile all = merged({example(0), second});
  EXPECT_EQ(all.rank, -1);
  ASSERT_EQ(all.threads.size(), 1u);
  EXPECT_EQ(all.threads[0].stacks[0].count, 6);
  EXPECT_THAT(all.problems, ElementsAre("rank 1: something"));
  EXPECT_THAT(all.ways, ElementsAre("signal"));
  EXPECT_THAT(to_folded({all}), HasSubstr("all ranks;train (C++);main (train.cpp);step (train.cpp) 16\n"));
}

TEST(Profile, FunctionsHaveSharesAndTheirBusiestLine) {
  auto shares = function_shares({example(0)}, kNativeCode);
  std::ranges::sort(shares, {}, &FunctionShare::function);
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].function, "main (train.cpp:3)");
  EXPECT_EQ(shares[0].own, 0);
  EXPECT_EQ(shares[0].total, 9);
  EXPECT_TRUE(shares[0].is_way);
  EXPECT_FALSE(shares[1].is_way);
  EXPECT_EQ(shares[1].function, "step (train.cpp:11)");
  EXPECT_EQ(shares[1].own, 9);
  EXPECT_EQ(shares[1].total, 9);
  EXPECT_TRUE(function_shares({example(0)}, kPythonCode).empty());
}

TEST(Profile, PythonWaitsWhereItDoesNotRun) {
  Profile profile{.rate = 49, .seconds = 2};
  ProfileBuilder builder(profile);
  builder.add({.tid = 1, .name = "main"}, {{.function = "poll"}}, 40);
  builder.add({.tid = 2, .name = "busy"}, {{.function = "futex"}}, 1);
  add_py_spy_waits(
      "thread (1): MainThread;run (a.py:3);get (queue.py:180) 39\n"
      "thread (1): MainThread;run (a.py:3);step (a.py:9) 30\n"
      "thread (1): MainThread;run (a.py:3);step (a.py:10) 29\n"
      "thread (2): Busy;spin (a.py:20) 98\n"
      "thread (3): Unseen;spin (a.py:20) 98\n",
      "thread (1): MainThread;run (a.py:3);step (a.py:9) 25\n"
      "thread (1): MainThread;run (a.py:3);step (a.py:10) 34\n"
      "thread (2): Busy;spin (a.py:20) 95\n",
      profile);
  EXPECT_EQ(to_folded({profile}),
            "all ranks;Busy (Python);spin (a.py) 1\n"
            "all ranks;MainThread (Python);run (a.py);get (queue.py) 39\n"
            "all ranks;busy (C++);futex 1\n"
            "all ranks;main (C++);poll 40\n");
}

TEST(Profile, ReadsWhatPySpyPrints) {
  Profile profile;
  add_py_spy(
      "py-spy> Sampling process 99 times a second for 2 seconds. Press Control-C to exit.\n\n"
      "thread (31561): MainThread;<module> (spin.py:10) 1\n"
      "thread (31561): MainThread;<module> (spin.py:10);inner (spin.py:4) 107\n"
      "thread (0x7F2A): loader: one;run (threading.py:982);f (a b (c):d.py:7) 9\n"
      "thread (5);g 2\n"
      "thread (5: broken;g 2\n"
      "thread (6): empty 2\n"
      "py-spy> Wrote raw flamegraph data to '/dev/stdout'. Samples: 237 Errors: 0\n",
      profile);
  EXPECT_EQ(to_folded({profile}),
            "all ranks;MainThread (Python);<module> (spin.py) 1\n"
            "all ranks;MainThread (Python);<module> (spin.py);inner (spin.py) 107\n"
            "all ranks;loader: one (Python);run (threading.py);f (a b (c):d.py) 9\n"
            "all ranks;thread 5 (Python);g 2\n");
  EXPECT_EQ(profile.threads[0].tid, 31561);
  EXPECT_EQ(profile.frames[1].line, 4);
}

}  // namespace
}  // namespace paceline::stacks
