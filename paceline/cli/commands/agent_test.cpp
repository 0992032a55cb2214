// `paceline agent`: what its command line takes.
#include <gmock/gmock.h>

#include <string>

#include "paceline/cli/command.h"
#include "paceline/cli/program_fixture.h"

namespace paceline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Wrong {
  const char* option;
  const char* value;
  const char* wanted;
};

constexpr Wrong kWrong[] = {
    {"--join", "somewhere", "HOST:PORT"},
    {"--join", "somewhere:http", "HOST:PORT"},
    {"--join", "somewhere:70000", "HOST:PORT"},
    {"--join", "somewhere:0", "HOST:PORT, the port another than 0"},
    {"--join", ":7000", "HOST:PORT"},
    {"--address", "no.such.host.invalid", "an address or a name of this machine"},
    {"--address", "", "an address or a name of this machine"},
    {"--cpus", "many", "a whole number of 0 or more"},
    {"--cpus", "-1", "a whole number of 0 or more"},
    {"--cpus", "1.5", "a whole number of 0 or more"},
    {"--cpus", "99999999999999999999", "a whole number of 0 or more"},
    {"--gpus", "", "a whole number of 0 or more"},
    {"--gpus", "-1", "a whole number of 0 or more"},
    {"--gpus", "nan", "a whole number of 0 or more"},
    {"--label", "zone", "NAME=VALUE"},
    {"--label", "=a", "NAME=VALUE"},
    {"--resource", "disk", "NAME=AMOUNT"},
    {"--resource", "=1", "NAME=AMOUNT"},
    {"--resource", "disk=", "NAME=AMOUNT, the amount a number of 0 or more"},
    {"--resource", "disk=large", "NAME=AMOUNT, the amount a number of 0 or more"},
    {"--resource", "disk=2GB", "NAME=AMOUNT, the amount a number of 0 or more"},
    {"--resource", "disk=-1", "NAME=AMOUNT, the amount a number of 0 or more"},
    {"--resource", "disk=nan", "NAME=AMOUNT, the amount a number of 0 or more"},
    {"--resource", "disk=inf", "NAME=AMOUNT, the amount a number of 0 or more"},
};

// An agent that took it would wait for its token file.
TEST(AgentCommand, NamesAWrongOptionAndWhatWasWanted) {
  for (const auto& [option, value, wanted] : kWrong) {
    const Outcome outcome = run_command_line("timeout 60 " PACELINE_PROGRAM " agent --token-file /none/token " +
                                             std::string(option) + " '" + value + "'");
    EXPECT_EQ(outcome.exit_code, kWrongUse) << option << " " << value << "\n" << outcome.output;
    EXPECT_THAT(outcome.output,
                AllOf(HasSubstr("paceline: " + std::string(option) + ": "), HasSubstr("wanted " + std::string(wanted)),
                      HasSubstr(value), HasSubstr("`paceline agent --help`")));
  }
}

}  // namespace
}  // namespace paceline::cli
