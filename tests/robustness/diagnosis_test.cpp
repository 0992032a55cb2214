// What is said of runs that hang, crash, stand still or run out of memory, and that they go on where they should.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "tests/robustness/robustness_fixture.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// A hang counts after a few seconds; no busy machine holds a rank up for so long.
Environment quick_hangs() {
  return {{"HANG_FLOOR", "2"}, {"HANG_START", "10"}, {"HANG_ACTION", "fail"}};
}

Environment with(Environment environment, const Environment& more) {
  environment.insert(more.begin(), more.end());
  return environment;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

char state_of(pid_t pid) {
  const std::string stat = text_of("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos ? '?' : stat[name_end + 2];
}

class Diagnosis : public Robustness {
 protected:
  // The file of that name in the folder of the only hang.
  std::string evidence(const std::string& name) const {
    const auto hangs = testing::names_in(folder() + "/hang");
    EXPECT_THAT(hangs, SizeIs(1));
    return hangs.empty() ? "" : text_of(folder() + "/hang/" + hangs.front() + "/" + name);
  }
};

TEST_F(Diagnosis, ARankThatHangsInUserCodeIsNamedShownAndReplaced) {
  auto driver = start("hang_in_user_code", with(quick_hangs(), {{"MAX_FAILURES", "1"}}));
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(),
              AllOf(HasSubstr("rank 1 makes no progress"), HasSubstr("rank 0 waits in "), HasSubstr("state finished")));
  EXPECT_THAT(evidence("stacks.txt"), AllOf(HasSubstr("wait_for_a_lock_of_its_own() (fault_loops.cpp:"),
                                            HasSubstr("rank 0, process "), HasSubstr("rank 1, process ")));
  EXPECT_THAT(evidence("report.txt"), HasSubstr("rank 1 is in "));
  EXPECT_THAT(evidence("hang.json"), HasSubstr("\"groups\""));
  EXPECT_EQ(checkpoints().size(), 5u);
  expect_clean(driver);
}

TEST_F(Diagnosis, TheErrorOfAHangHasTheStackOfTheRankThatIsNotThere) {
  auto driver = start("hang_in_user_code", quick_hangs());
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("The run hangs: rank 1 makes no progress"),
                                     HasSubstr("at (anonymous namespace)::wait_for_a_lock_of_its_own()")));
  expect_clean(driver);
}

TEST_F(Diagnosis, AHangThatIsOnlyObservedIsReportedAndGoesOn) {
  auto driver = start("hang_in_user_code", with({{"HANG_ACTION", "observe"}}, quick_hangs()));
  ASSERT_TRUE(driver.wait_for_output("this looks like a hang: rank 1")) << driver.output();
  driver.signal(SIGINT);
  driver.signal(SIGINT);
  driver.signal(SIGINT);
  driver.wait();
  EXPECT_THAT(driver.output(), HasSubstr("state aborted"));
  expect_clean(driver);
}

TEST_F(Diagnosis, RanksThatCallDifferentCollectivesAreToldApart) {
  auto driver = start("skip_a_collective", quick_hangs());
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("in different collectives"), HasSubstr("waits in all_reduce "),
                                     HasSubstr("waits in barrier ")));
  expect_clean(driver);
}

// With the patience that users have by default, which is ten minutes before the first steps.
TEST_F(Diagnosis, ARankThatCanNeverComeEndsTheRunInSeconds) {
  const auto start_time = std::chrono::steady_clock::now();
  auto driver = start("return_before_the_others", {{"HANG_ACTION", "fail"}});
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start_time, std::chrono::minutes(1));
  EXPECT_THAT(driver.output(),
              AllOf(HasSubstr("The run hangs: rank 0 waits in all_reduce 1, which rank 1 can never "
                              "join: its train loop has returned"),
                    HasSubstr("\n  at sum_over_all_ranks (fault_loops.cpp:"), Not(HasSubstr("next_assignment"))));
  EXPECT_THAT(evidence("report.txt"), HasSubstr("rank 1 has returned from its train loop"));
  expect_clean(driver);
}

TEST_F(Diagnosis, ARankThatPreparesAModelAloneEndsTheRunInSeconds) {
  auto driver = start("prepare_a_model_alone", {{"HANG_ACTION", "fail"}});
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), HasSubstr("The run hangs: rank 0 waits in barrier 1 of group 2, which rank 1 can never "
                                         "join: its train loop has returned"));
  expect_clean(driver);
}

TEST_F(Diagnosis, ARankThatNeverComesToTheFirstBarrierIsNamed) {
  auto driver = start("wait_in_the_first_barrier", quick_hangs());
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("The run hangs: rank 1 makes no progress: rank 1 is in "),
                                     HasSubstr("rank 0 waits in barrier 1 of group 2"),
                                     HasSubstr("at (anonymous namespace)::wait_for_a_lock_of_its_own()")));
  expect_clean(driver);
}

// Stops a process of the run for longer than its heartbeats and hangs take, and lets it go on.
void stop_for_a_while(pid_t pid) {
  ::kill(pid, SIGSTOP);
  while (state_of(pid) != 'T') std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(2'500));
  ::kill(pid, SIGCONT);
}

TEST_F(Diagnosis, ADriverThatWasStoppedForAWhileGoesOn) {
  auto driver = start("endless", with(quick_hangs(), {{"HEARTBEAT_TIMEOUT", "1"}}));
  ASSERT_TRUE(driver.wait_for_output("looping"));
  stop_for_a_while(driver.pid());
  driver.signal(SIGINT);
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("state aborted"), Not(HasSubstr("no sign of life"))));
  expect_clean(driver);
}

TEST_F(Diagnosis, AGuardianThatWasStoppedForAWhileDoesNotMatter) {
  auto driver = start("endless", with(quick_hangs(), {{"HEARTBEAT_TIMEOUT", "1"}}));
  ASSERT_TRUE(driver.wait_for_output("looping"));
  for (const pid_t pid : driver.processes()) {
    if (text_of("/proc/" + std::to_string(pid) + "/comm") == "paceline-guard\n") stop_for_a_while(pid);
  }
  driver.signal(SIGINT);
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), HasSubstr("state aborted"));
  expect_clean(driver);
}

// A memory cgroup (version 1 or 2) around this test and what it starts, where one may be made.
class MemoryGroup {
 public:
  explicit MemoryGroup(int64_t bytes) {
    for (const auto& [root, limit] :
         {std::pair{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, std::pair{"/sys/fs/cgroup", "memory.max"}}) {
      folder_ = std::string(root) + "/paceline_test_" + std::to_string(::getpid());
      if (::mkdir(folder_.c_str(), 0755) != 0) continue;
      const bool limited = write(limit, std::to_string(bytes));
      write("memory.swap.max", "0");
      if (limited && write("cgroup.procs", std::to_string(::getpid()))) {
        root_ = root;
        return;
      }
      ::rmdir(folder_.c_str());
    }
    folder_.clear();
  }
  ~MemoryGroup() {
    if (folder_.empty()) return;
    leave();
    ::rmdir(folder_.c_str());
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool is_there() const { return !folder_.empty(); }
  /// The test itself; what it has started stays inside.
  void leave() const { std::ofstream(root_ + "/cgroup.procs") << ::getpid() << std::flush; }

 private:
  bool write(const std::string& name, const std::string& text) const {
    std::ofstream file(folder_ + "/" + name);
    file << text << std::flush;
    return file.good();
  }

  std::string root_;
  std::string folder_;
};

TEST_F(Diagnosis, AWorkerThatTheKernelKilledForItsMemoryIsToldWithTheLimit) {
  const MemoryGroup group(int64_t{1'500} << 20);
  if (!group.is_there()) GTEST_SKIP() << "no memory cgroup can be made here";
  auto driver = start("use_all_memory");
  group.leave();
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(),
              AllOf(HasSubstr("Rank 1 of 2"), HasSubstr("the kernel ran out of memory"),
                    HasSubstr("whose limit is 1.5 GiB"), HasSubstr("What to do: use smaller batches")));
  expect_clean(driver);
}

TEST_F(Diagnosis, AWorkerThatGetsNoMoreMemoryFailsAloneAndSaysSo) {
  auto driver = start("use_all_memory", {{"LIMITED_ADDRESS_SPACE", "1"}});
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("Rank 1 of 2"), HasSubstr("std::bad_alloc"),
                                     HasSubstr("fault_loops.cpp"), Not(HasSubstr("Rank 0 of 2"))));
  expect_clean(driver);
}

TEST_F(Diagnosis, NumbersThatAreNotFiniteAreNamedWithRankAndParameter) {
  auto driver = start("loses_its_numbers", {{"NAN_WATCH", "report"}});
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("rank 1"), HasSubstr("the gradient of "), HasSubstr("NaN")));
  expect_clean(driver);
}

TEST_F(Diagnosis, NumbersThatAreNotFiniteFailTheRunIfWanted) {
  auto driver = start("loses_its_numbers", {{"NAN_WATCH", "stop"}});
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("Rank 1 of 2"), HasSubstr("paceline::NonFiniteError")));
  expect_clean(driver);
}

}  // namespace
}  // namespace paceline
