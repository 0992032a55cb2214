// Every write, sync and rename of a publication fails or is the last of its process, one after another (strace
// injects).
#include <gmock/gmock.h>

#include "paceline/checkpoint/publish_fixture.h"
#include "paceline/storage/local/durable.h"
#include "paceline/testing/child_program.h"

namespace paceline::checkpoint {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using testing::TemporaryFolder;

struct Strike {
  int status = 0;        // as waitpid() gives it
  bool has_hit = false;  // there was such a call
};

// The publication in `folder`, whose `number`-th of `calls` meets `fault`, in each of its threads.
Strike publish_with(const TemporaryFolder& folder, const std::string& calls, const std::string& fault, int number) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string trace = folder / "trace.txt";
  const std::string inject = "inject=" + calls + ":" + fault + ":when=" + std::to_string(number);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execlp("strace", "strace", "-f", "-qq", "-o", trace.c_str(), "-e", ("trace=" + calls).c_str(), "-e",
             inject.c_str(), program.c_str(), "--child", "publish", folder.path().c_str(), nullptr);
    ::_exit(127);
  }
  Strike strike;
  EXPECT_EQ(::waitpid(child, &strike.status, 0), child);
  EXPECT_FALSE(WIFEXITED(strike.status) && WEXITSTATUS(strike.status) == 127) << "no strace";
  const std::string traced = storage::read_file(trace).ValueOrDie();
  strike.has_hit = testing::was_killed(strike.status) || traced.find("(INJECTED)") != std::string::npos;
  return strike;
}

class PublishSweep : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(PublishSweep, LeavesTheOldStateOrTheNewOneWhole) {
  const auto& [calls, fault] = GetParam();
  int number = 1;
  for (;; ++number) {
    SCOPED_TRACE(fault + " at number " + std::to_string(number) + " of " + calls);
    const TemporaryFolder folder;
    make_run(folder);
    const Strike strike = publish_with(folder, calls, fault, number);
    std::vector<int64_t> reports = reports_after_recovery(folder);
    if (!strike.has_hit) {
      EXPECT_TRUE(testing::ended_well(strike.status));
      EXPECT_THAT(reports, ElementsAre(1, 2));
      break;
    }
    ASSERT_THAT(reports, AnyOf(ElementsAre(1), ElementsAre(1, 2)));
    if (!testing::was_killed(strike.status)) {
      EXPECT_EQ(reports.size() == 2, testing::ended_well(strike.status)) << "what it says is so";
    }
    if (reports.size() == 1) {
      EXPECT_EQ(publish_in_child(folder.path()), 0);
      EXPECT_THAT(reports_after_recovery(folder), ElementsAre(1, 2));
    }
  }
  EXPECT_GT(number, 2) << "the sweep met nothing";
}

INSTANTIATE_TEST_SUITE_P(
    EveryCall, PublishSweep,
    // As texts: of a const char* the test's name would have the address, another in each run.
    ::testing::Combine(::testing::Values<std::string>("write,pwrite64,writev,pwritev,copy_file_range,sendfile",
                                                      "fsync,fdatasync,syncfs", "rename,renameat,renameat2"),
                       ::testing::Values<std::string>("error=EIO", "error=ENOSPC", "signal=SIGKILL")));

}  // namespace
}  // namespace paceline::checkpoint

int main(int argc, char** argv) {
  paceline::testing::run_child_if_asked(argc, argv, {{"publish", paceline::checkpoint::publish_in_child}});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
