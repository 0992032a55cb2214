// `paceline dashboard` as a user starts and ends it.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <filesystem>

#include "paceline/cli/command.h"
#include "paceline/cli/runs_fixture.h"

namespace paceline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using DashboardCommandTest = RunsTest;

// The program, with its output in a pipe.
class Started {
 public:
  explicit Started(const std::string& arguments) {
    const std::string command = "echo $$; exec " PACELINE_PROGRAM " dashboard " + arguments + " 2>&1";
    pipe_ = ::popen(command.c_str(), "r");  // NOLINT(bugprone-command-processor): a test's own words
    pid_ = std::stoi(line());
  }
  std::string line() const {
    std::array<char, 4096> buffer{};
    return std::fgets(buffer.data(), buffer.size(), pipe_) != nullptr ? buffer.data() : "";
  }
  int end(int signal) {
    ::kill(pid_, signal);
    while (!line().empty()) {
    }
    const int status = ::pclose(pipe_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  std::FILE* pipe_ = nullptr;
  int pid_ = 0;
};

TEST_F(DashboardCommandTest, PrintsItsAddressAndEndsWithASignal) {
  finished("mnist");
  for (const int signal : {SIGINT, SIGTERM}) {
    Started dashboard("--port 0 --storage-path " + storage(""));
    EXPECT_THAT(dashboard.line(),
                ::testing::MatchesRegex("paceline dashboard: open http://127\\.0\\.0\\.1:[0-9]+/#code=[0-9a-f]{32}\n"));
    EXPECT_THAT(dashboard.line(), HasSubstr((home_ / "state/metrics_token") + "; Ctrl-C ends this\n"));
    EXPECT_EQ(listed().size(), 1u) << "the storage path was read";
    EXPECT_EQ(dashboard.end(signal), kDone);
  }
}

TEST_F(DashboardCommandTest, BehindAProxyItsAddressIsThatOfTheProxy) {
  Started dashboard("--port 0 --external-url https://train.example/paceline");
  EXPECT_THAT(dashboard.line(), ::testing::MatchesRegex(".* listens at 127\\.0\\.0\\.1:[0-9]+, for the proxy\n"));
  EXPECT_THAT(dashboard.line(), HasSubstr("open https://train.example/paceline/#code="));
  EXPECT_EQ(dashboard.end(SIGTERM), kDone);
}

TEST_F(DashboardCommandTest, OnTheNetworkItNamesTheFileWithItsToken) {
  Started dashboard("--port 0 --host 0.0.0.0 --insecure-no-tls");
  EXPECT_THAT(dashboard.line(), HasSubstr("open http://"));
  EXPECT_THAT(dashboard.line(), HasSubstr("needs the token in " + (home_ / "state/dashboard_token") + "\n"));
  EXPECT_EQ(dashboard.end(SIGTERM), kDone);
}

TEST_F(DashboardCommandTest, SaysWhatIsWrong) {
  const auto fails = [](const std::string& arguments, int exit_code, const char* what) {
    const Outcome outcome = run_program("dashboard " + arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << arguments;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr("paceline: "), HasSubstr(what)));
  };
  fails("--host 0.0.0.0", kFailed, "--insecure-no-tls");
  fails("--prot 1", kWrongUse, "did you mean \"--port\"?");
  fails("--port 65536", kWrongUse, "--port");
  fails("--port x", kWrongUse, "--port");
  fails("--external-url http://train.example/", kFailed, "not encrypted");
  fails("--web-root /no/such/folder", kFailed, "/no/such/folder is no folder");
  fails("extra", kWrongUse, "takes no further argument \"extra\"");
}

}  // namespace
}  // namespace paceline::cli
