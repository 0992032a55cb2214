#include "paceline/stacks/frames_for_user.h"

#include <gmock/gmock.h>

namespace paceline::stacks {
namespace {

using ::testing::ElementsAre;

// As py-spy prints it, and python_stacks() indents it.
constexpr const char* kPython = R"(  Process 31768: paceline worker 1 of run
  Python v3.11.7 (/usr/bin/python3.11)

  Thread 31770 (active): "loader"
      read (loader.py:3)
  Thread 31768 (idle): "MainThread"
      wait (threading.py:320)
      wait_for_data (train.py:7)
      report (paceline/train/session.py:60)
      train_func (train.py:15)
      _call_within (paceline/train/trainer.py:236)
      train (paceline/_worker.py:33)
      main (paceline/_worker.py:96)
      _run_code (<frozen runpy>:88)
  Thread 31771 (idle): "another"
      sleep (other.py:1)
)";

ProcessStacks python_process() {
  ProcessStacks stacks;
  stacks.threads = {
      {.frames = {{.function = "sem_wait", .module = "libc.so.6"},
                  {.function = "acquire_timed", .file = "_threadmodule.c", .line = 98, .module = "python3.11"},
                  {.function = "PythonProgram::train", .module = "_paceline.so"}}}};
  return stacks;
}

TEST(FramesForUser, AreTheLinesOfPythonDownToTheTrainLoop) {
  ProcessStacks stacks = python_process();
  stacks.python = kPython;
  EXPECT_THAT(frames_for_user(stacks),
              ElementsAre("wait (threading.py:320)", "wait_for_data (train.py:7)", "train_func (train.py:15)"));
}

TEST(FramesForUser, AreNotTheInterpretersWherePySpyIsNotThere) {
  ProcessStacks stacks = python_process();
  stacks.python_problem = "install py-spy";
  EXPECT_THAT(frames_for_user(stacks), ElementsAre("sem_wait (libc.so.6)", "lines of Python: install py-spy"));
}

TEST(FramesForUser, OfOtherProgramsAreTheMainThreads) {
  ProcessStacks stacks;
  stacks.threads = {{.frames = {{.function = "train_loop", .file = "train.cpp", .line = 41, .module = "train"}}},
                    {.frames = {{.function = "run", .module = "libc.so.6"}}}};
  EXPECT_THAT(frames_for_user(stacks), ElementsAre("train_loop (train.cpp:41)"));
  EXPECT_THAT(frames_for_user({}), ElementsAre());
}

}  // namespace
}  // namespace paceline::stacks
