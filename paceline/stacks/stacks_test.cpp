#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "paceline/stacks/capture.h"
#include "paceline/stacks/symbols.h"

namespace paceline::stacks {

// Names that the tests look for; not inlined and not in an anonymous namespace, so that they read the same everywhere.
[[gnu::noinline]] void wait_in_user_code() {
  while (true) ::pause();
}
[[gnu::noinline]] void compute_in_user_code() {
  volatile uint64_t steps = 0;
  while (true) steps = steps + 1;
}

namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A forked process that does something for ever.
class Child {
 public:
  explicit Child(void (*work)()) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::alarm(120);
      [[maybe_unused]] const ssize_t written = ::write(ends[1], "x", 1);
      work();
      ::_exit(0);
    }
    char ready = 0;
    EXPECT_EQ(::read(ends[0], &ready, 1), 1);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

ProcessStacks stacks_of(pid_t pid) {
  Symbols symbols;
  return symbols.name(capture(pid).ValueOrDie());
}

// A child may not have come to its function when it is looked at first.
ProcessStacks stacks_with(pid_t pid, const std::string& function) {
  while (true) {
    ProcessStacks stacks = stacks_of(pid);
    if (to_text(stacks).find(function) != std::string::npos) return stacks;
  }
}

auto calls(const std::string& function) {
  return Contains(Field(&StackFrame::function, HasSubstr(function)));
}

TEST(Stacks, ShowFunctionsAndLinesOfAWaitingProcess) {
  const Child child(wait_in_user_code);
  ProcessStacks stacks = stacks_with(child.pid(), "wait_in_user_code");
  while (stacks.threads.at(0).state == "R") stacks = stacks_of(child.pid());  // on its way into the wait
  ASSERT_THAT(stacks.threads, SizeIs(1));
  EXPECT_EQ(stacks.pid, child.pid());
  EXPECT_EQ(stacks.threads[0].state, "S");
  EXPECT_THAT(stacks.threads[0].frames, calls("paceline::stacks::wait_in_user_code()"));
  EXPECT_THAT(stacks.threads[0].frames, calls("main"));
  EXPECT_THAT(to_text(stacks), HasSubstr("wait_in_user_code() (stacks_test.cpp:"));
  EXPECT_GT(stacks.longest_pause_s, 0);
}

TEST(Stacks, ShowARunningProcess) {
  const Child child(compute_in_user_code);
  const ProcessStacks stacks = stacks_with(child.pid(), "compute_in_user_code");
  EXPECT_THAT(stacks.threads[0].frames, calls("paceline::stacks::compute_in_user_code()"));
  // It runs on.
  EXPECT_THAT(stacks_of(child.pid()).threads[0].frames, calls("compute_in_user_code"));
}

TEST(Stacks, AStoppedProcessStaysStopped) {
  const Child child(wait_in_user_code);
  stacks_with(child.pid(), "wait_in_user_code");
  ::kill(child.pid(), SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  const ProcessStacks stacks = stacks_of(child.pid());
  EXPECT_THAT(stacks.threads.at(0).frames, calls("wait_in_user_code"));
  EXPECT_THAT(to_text(stacks), HasSubstr(", stopped"));
  std::ifstream stat("/proc/" + std::to_string(child.pid()) + "/stat");
  std::string pid, name, state;
  stat >> pid >> name >> state;
  EXPECT_EQ(state, "T");
}

TEST(Stacks, ShowEveryThreadAndEqualOnesOnce) {
  const Child child([] {
    std::thread first(wait_in_user_code);
    std::thread second(wait_in_user_code);
    compute_in_user_code();
  });
  ProcessStacks stacks;
  const auto waiting = [&stacks] {
    return std::ranges::count_if(stacks.threads, [](const ThreadStack& thread) {
      return ::testing::Matches(calls("wait_in_user_code"))(thread.frames);
    });
  };
  do stacks = stacks_with(child.pid(), "compute_in_user_code");
  while (waiting() < 2);
  ASSERT_THAT(stacks.threads, SizeIs(3));
  EXPECT_EQ(stacks.threads[0].tid, child.pid());
  const std::string text = to_text(stacks);
  const size_t first = text.find("wait_in_user_code");
  EXPECT_EQ(text.find("wait_in_user_code", first + 1), std::string::npos) << text;
}

TEST(Stacks, AProcessThatIsNotThereIsAnError) {
  pid_t gone = 0;
  {
    const Child child(wait_in_user_code);
    gone = child.pid();
  }
  EXPECT_THAT(capture(gone).status().message(), HasSubstr("there is no process"));
}

TEST(Stacks, TravelAsLines) {
  const std::vector<WorkerStacks> workers = {
      {.worker = 3,
       .rank = 1,
       .node = "here",
       .stacks = {.pid = 77, .threads = {{.tid = 77, .frames = {{.function = "f()", .file = "a.cpp", .line = 3}}}}}},
      {.worker = 4, .stacks = {.problem = "the process has ended"}}};
  EXPECT_EQ(decode_lines(encode_lines(workers)), workers);
  EXPECT_THAT(decode_lines(encode_lines(workers).substr(0, 10)), IsEmpty());
  EXPECT_THAT(to_text(workers[0]), HasSubstr("rank 1, process 77 on node here\n  thread 77\n    f() (a.cpp:3)\n"));
  EXPECT_THAT(to_text(workers[1]), HasSubstr("worker 4\n  no stacks: the process has ended\n"));
}

}  // namespace
}  // namespace paceline::stacks
