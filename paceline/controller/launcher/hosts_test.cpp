#include "paceline/controller/launcher/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "paceline/controller/launcher/slurm.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::controller {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A script that is `ssh` for as long as it exists.
class FakeSsh {
 public:
  explicit FakeSsh(const std::string& script) : path_(std::getenv("PATH")) {
    const std::string program = folder_ / "ssh";
    paceline::testing::write_file(program, "#!/bin/sh\n" + script);
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    ::setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1);
  }
  ~FakeSsh() { ::setenv("PATH", path_.c_str(), 1); }

 private:
  const paceline::testing::TemporaryFolder folder_;
  const std::string path_;
};

// As ssh, which says of a host that it does not know what it was given.
constexpr const char* kConfigured = R"([ "$1 $2 $#" = "-G -- 3" ] || exit 1
echo "user me"
case $3 in
  mine.invalid) echo "hostname 127.0.0.1";;
  "it's mine; false") echo "hostname 127.0.0.1";;
  astray.invalid) echo "hostname no.such.host.invalid";;
  *) echo "hostname $3";;
esac
echo "port 22"
)";

TEST(Hosts, AShellThereGetsTheWordsAsTheyAre) {
  const Words command = ssh_command("me@b", {"/opt/my programs/paceline", "agent", "--name", "it's $HOME"});
  EXPECT_THAT(command, ElementsAre("ssh", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=10", "--", "me@b",
                                   R"(exec '/opt/my programs/paceline' 'agent' '--name' 'it'\''s $HOME')"));
}

TEST(Hosts, AnAgentReadsItsSecretFromStandardInput) {
  EXPECT_THAT(*agent_command({"python", "-m", "paceline"}, "b"),
              ElementsAre("python", "-m", "paceline", "agent", "--token-file", "-", "--name", "b"));
}

TEST(Hosts, TheAddressIsTheOneTowardsThem) {
  EXPECT_EQ(*address_for("10.0.0.1:7000", {"no.such.host.invalid"}), "10.0.0.1:7000");
  EXPECT_EQ(*address_for("", {"127.0.0.2"}), "127.0.0.1:0");
  EXPECT_EQ(*address_for("", {"::1"}), "[::1]:0");
  EXPECT_EQ(*address_for("", {"no.such.host.invalid", "127.0.0.1"}), "127.0.0.1:0");
  EXPECT_THAT(address_for("", {"no.such.host.invalid"}).status().message(),
              HasSubstr("name it in ScalingConfig.listen, as HOST:PORT"));
}

TEST(Hosts, WhatOnlySshKnowsIsFound) {
  const FakeSsh ssh(kConfigured);
  EXPECT_EQ(address_for("", {"mine.invalid"}).ValueOr("none"), "127.0.0.1:0");
  EXPECT_EQ(address_for("", {"it's mine; false"}).ValueOr("none"), "127.0.0.1:0") << "its shell takes it for one word";
}

TEST(Hosts, WhatSshDoesNotKnowEitherIsNamed) {
  const FakeSsh ssh(kConfigured);
  for (const auto& [host, missing] : std::map<std::string, std::string>{{"yours.invalid", "yours.invalid"},
                                                                        {"astray.invalid", "no.such.host.invalid"}}) {
    EXPECT_THAT(address_for("", {host}).status().message(),
                AllOf(HasSubstr("there is no host \"" + missing + "\""), HasSubstr("name it in ScalingConfig.listen")));
  }
  const FakeSsh broken("exit 255\n");
  EXPECT_THAT(address_for("", {"yours.invalid"}).status().message(), HasSubstr("there is no host \"yours.invalid\""));
}

TEST(Slurm, NodesAreThoseThatScontrolTellsOf) {
  const auto nodes = parse_slurm_nodes(
      "NodeName=n1 Arch=x86_64 CoresPerSocket=1 NodeAddr=10.1.0.1 NodeHostName=host1 Port=17001\n"
      "NodeName=n2 Arch=x86_64 OS=Linux 6.1 #1 Comment=NodeAddr\n"
      "\n"
      "slurm_load_node error\n");
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].name, "n1");
  EXPECT_EQ(nodes[0].address, "10.1.0.1");
  EXPECT_EQ(nodes[1].name, "n2");
  EXPECT_EQ(nodes[1].address, "n2") << "the name, where there is nothing else";
}

TEST(Slurm, IsFoundInTheScriptOfAJobOfSeveralNodes) {
  const auto in = [](const std::map<std::string, std::string>& variables) {
    return is_slurm_job_of_several_nodes([variables](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
  };
  EXPECT_FALSE(in({}));
  EXPECT_FALSE(in({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "1"}}));
  EXPECT_TRUE(in({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "3"}}));
  EXPECT_FALSE(in({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "3"}, {"SLURM_STEP_ID", "0"}})) << "a task of srun";
}

TEST(Slurm, AStepHasOneTaskOnItsNode) {
  const Words command = srun_command("n2", {"paceline", "agent"});
  EXPECT_THAT(command, ::testing::IsSupersetOf({"srun", "--ntasks=1", "--nodelist=n2", "paceline", "agent"}));
}

}  // namespace
}  // namespace paceline::controller
