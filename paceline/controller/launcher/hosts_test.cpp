#include "paceline/controller/launcher/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/controller/launcher/slurm.h"

namespace paceline::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  EXPECT_THAT(command, testing::IsSupersetOf({"srun", "--ntasks=1", "--nodelist=n2", "paceline", "agent"}));
}

}  // namespace
}  // namespace paceline::controller
