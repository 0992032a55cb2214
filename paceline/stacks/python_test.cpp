#include "paceline/stacks/python.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "paceline/testing/temporary_folder.h"

namespace paceline::stacks {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A process whose PATH is one folder; what it runs does not matter here.
class Sleeper {
 public:
  explicit Sleeper(const std::string& path) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      const std::string variable = "PATH=" + path;
      const char* environment[] = {variable.c_str(), nullptr};
      ::execle("/bin/sleep", "sleep", "120", nullptr, environment);
      ::_exit(127);
    }
    ::close(ends[1]);
    char nothing = 0;
    EXPECT_EQ(::read(ends[0], &nothing, 1), 0);  // closed by exec: the environment is its own
    ::close(ends[0]);
  }
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

void write_program(const std::string& path, const std::string& script) {
  testing::write_file(path, "#!/bin/sh\n" + script);
  ::chmod(path.c_str(), 0755);
}

TEST(Python, AFileIsNamedFromItsPackage) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "lib/outer/inner");
  for (const char* file : {"lib/outer/__init__.py", "lib/outer/inner/__init__.py"})
    testing::write_file(folder / file, "");
  EXPECT_EQ(file_in_package(folder / "lib/outer/inner/module.py"), "outer/inner/module.py");
  EXPECT_EQ(file_in_package(folder / "lib/script.py"), "script.py");
  EXPECT_EQ(file_in_package("train.py"), "train.py");
  EXPECT_EQ(file_in_package("<frozen runpy>"), "<frozen runpy>");
  EXPECT_EQ(file_in_package(""), "");
}

TEST(Python, IsKnownByItsMappings) {
  EXPECT_TRUE(runs_python("7f00-7f01 r-xp 0 00:00 1  /usr/lib/libpython3.11.so.1.0\n"));
  EXPECT_TRUE(runs_python("7f00-7f01 r-xp 0 00:00 1  /usr/bin/python3.11\n"));
  EXPECT_FALSE(runs_python("7f00-7f01 r-xp 0 00:00 1  /usr/bin/train\n"));
}

TEST(Python, StacksAreWhatPySpyPrints) {
  const testing::TemporaryFolder folder;
  write_program(folder / "py-spy", "echo \"$@\"; echo '    train (train.py:7)'\n");
  const Sleeper process(folder.path());
  const PythonStacks stacks = python_stacks(process.pid());
  EXPECT_EQ(stacks.problem, "");
  EXPECT_THAT(stacks.text, AllOf(HasSubstr("dump --nonblocking --pid " + std::to_string(process.pid())),
                                 HasSubstr("train (train.py:7)")));
}

TEST(Python, WithoutPySpyTheAnswerSaysWhatToInstall) {
  const testing::TemporaryFolder folder;
  const Sleeper process(folder.path());
  EXPECT_THAT(python_stacks(process.pid()).problem, HasSubstr("pip install py-spy"));
}

TEST(Python, SaysWhyPySpyCouldNot) {
  const testing::TemporaryFolder folder;
  write_program(folder / "py-spy", "echo Permission denied; exit 1\n");
  const Sleeper process(folder.path());
  const PythonStacks stacks = python_stacks(process.pid());
  EXPECT_EQ(stacks.text, "");
  EXPECT_THAT(stacks.problem, AllOf(HasSubstr("py-spy could not"), HasSubstr("Permission denied")));
}

TEST(Python, ARecordingIsWhatPySpyPrints) {
  const testing::TemporaryFolder folder;
  write_program(folder / "py-spy",
                "echo 'py-spy> Sampling'; echo \"$@\"; echo 'thread (1): MainThread;f (a.py:1) 3'\n");
  const Sleeper process(folder.path());
  const PythonStacks recorded = PythonRecording(process.pid(), 2, 99).finish(std::chrono::minutes(1));
  EXPECT_EQ(recorded.problem, "");
  EXPECT_THAT(recorded.text, AllOf(HasSubstr("record --nonblocking"), HasSubstr("--rate 99 --duration 2"),
                                   HasSubstr("\nthread (1): MainThread;f (a.py:1) 3\n")));
}

TEST(Python, ARecordingSaysWhyThereIsNone) {
  const testing::TemporaryFolder folder;
  const Sleeper process(folder.path());
  EXPECT_THAT(PythonRecording(process.pid(), 1, 99).finish(std::chrono::minutes(1)).problem,
              HasSubstr("pip install py-spy"));
  write_program(folder / "py-spy", "echo 'py-spy> Sampling'; echo Permission denied; exit 1\n");
  EXPECT_THAT(PythonRecording(process.pid(), 1, 99).finish(std::chrono::minutes(1)).problem,
              HasSubstr("could not read the process: Permission denied"));
  write_program(folder / "py-spy", "exec /bin/sleep 120\n");
  EXPECT_THAT(PythonRecording(process.pid(), 1, 99).finish(std::chrono::milliseconds(50)).problem,
              HasSubstr("could not read"));
  const PythonRecording left(process.pid(), 1, 99);  // is ended
}

TEST(Python, DoesNotWaitForEver) {
  const testing::TemporaryFolder folder;
  write_program(folder / "py-spy", "exec /bin/sleep 120\n");
  const Sleeper process(folder.path());
  EXPECT_THAT(python_stacks(process.pid(), std::chrono::milliseconds(50)).problem, HasSubstr("could not read"));
}

}  // namespace
}  // namespace paceline::stacks
