#include "paceline/cli/commands/run_flags.h"

#include <gmock/gmock.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "paceline/testing/python_reference.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::cli {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

Words words_of(const std::string& line) {
  std::istringstream text(line);
  return {std::istream_iterator<std::string>(text), {}};
}

arrow::Result<RunFlags> parse(const std::string& line, int64_t gpus = 0) {
  return parse_run_flags(words_of(line),
                         {.cores = 6, .gpus = gpus, .variables = [](const std::string&) { return std::nullopt; }});
}

std::string refusal(const std::string& line) {
  return parse(line).status().message();
}

TEST(RunFlags, OwnFlagsStandBeforeTheProgram) {
  const RunFlags flags =
      parse("-n 2 --name mnist --storage-path=/runs -q --debug-rank 1 ./train --name x").ValueOrDie();
  EXPECT_EQ(flags.num_workers, 2);
  EXPECT_EQ(flags.name, "mnist");
  EXPECT_EQ(flags.storage_path, "/runs");
  EXPECT_EQ(flags.debug_rank, 1);
  EXPECT_TRUE(flags.quiet);
  EXPECT_THAT(flags.program.words, ElementsAre("./train", "--name", "x"));
  EXPECT_EQ(parse("./train").ValueOrDie().num_workers, std::nullopt);
}

TEST(RunFlags, CountsWorkersOfTheMachine) {
  EXPECT_EQ(parse("--nproc-per-node=cpu a", 2).ValueOrDie().num_workers, 6);
  EXPECT_EQ(parse("--nproc-per-node=gpu a", 2).ValueOrDie().num_workers, 2);
  EXPECT_EQ(parse("--num-workers auto a", 2).ValueOrDie().num_workers, 2);
  EXPECT_EQ(parse("--num-workers auto a", 0).ValueOrDie().num_workers, 6);
  EXPECT_EQ(parse("--num-workers 2 --nproc-per-node 2 a").ValueOrDie().num_workers, 2);
  EXPECT_THAT(refusal("--nproc-per-node gpu a"), HasSubstr("no GPU"));
  EXPECT_THAT(refusal("--nproc-per-node 0 a"), HasSubstr("--nproc-per-node is \"0\"; allowed: a number from 1"));
  EXPECT_THAT(refusal("--num-workers 2 --nproc-per-node 3 a"), HasSubstr("mean the same"));
}

TEST(RunFlags, SeveralNodesAndWhereTheyMeet) {
  const auto nodes = [](const std::string& line) { return parse(line).ValueOrDie().nodes; };
  EXPECT_FALSE(nodes("a").are_several());
  const NodeFlags plain = nodes("--nnodes 2 --node-rank 1 --master-addr node0 a");
  EXPECT_EQ(plain.least, 2);
  EXPECT_EQ(plain.most, 2);
  EXPECT_EQ(plain.rank, 1);
  EXPECT_EQ(plain.host, "node0");
  EXPECT_EQ(plain.port, 29500);
  EXPECT_EQ(nodes("--nnodes 2 a").rank, 0) << "as torchrun has it";
  EXPECT_EQ(nodes("--nnodes 2 --master-port 0 a").port, 0);
  const NodeFlags elastic = nodes(
      "--nnodes=1:4 --rdzv-backend=c10d --rdzv-endpoint=node0 --rdzv-conf=join_timeout=5,is_host=True,"
      "last_call_timeout=7 --local-addr 10.0.0.2 --token-file /f a");
  EXPECT_EQ(elastic.least, 1);
  EXPECT_EQ(elastic.most, 4);
  EXPECT_EQ(elastic.rank, std::nullopt);
  EXPECT_EQ(elastic.host, "node0");
  EXPECT_EQ(elastic.port, 29400);
  EXPECT_EQ(elastic.join_timeout_s, 5);
  EXPECT_EQ(elastic.last_call_s, 7);
  EXPECT_EQ(elastic.lease_s, std::nullopt);
  EXPECT_EQ(nodes("--rdzv-conf keep_alive_interval=2 a").lease_s, 6) << "three signs of life by default";
  EXPECT_EQ(nodes("--rdzv-conf keep_alive_interval=2,keep_alive_max_attempt=4 a").lease_s, 8);
  EXPECT_EQ(elastic.is_host, true);
  EXPECT_EQ(elastic.local_address, "10.0.0.2");
  EXPECT_EQ(elastic.token_file, "/f");
  EXPECT_EQ(nodes("--nnodes 2 --rdzv-endpoint [fd00::1]:7 a").host, "fd00::1");
  EXPECT_EQ(nodes("--nnodes 2 --rdzv-endpoint [fd00::1]:7 a").port, 7);
  EXPECT_EQ(nodes("--nnodes 2 --rdzv-endpoint fd00::1 a").host, "fd00::1");
  EXPECT_FALSE(nodes("--nnodes 1:4 --standalone a").are_several());
  const auto variable = [](const std::string& name) {
    return name == "PACELINE_TOKEN_FILE" ? std::optional<std::string>("/v") : std::nullopt;
  };
  EXPECT_EQ(parse_run_flags(words_of("a"), {.variables = variable}).ValueOrDie().nodes.token_file, "/v");
}

TEST(RunFlags, OfNodesThatDoNotGoTogetherAreRefusedOrNoted) {
  EXPECT_THAT(refusal("--nnodes 0 a"), HasSubstr("--nnodes is \"0\"; allowed: a number from 1, or MIN:MAX"));
  EXPECT_THAT(refusal("--nnodes 3:2 a"), HasSubstr("MIN:MAX"));
  EXPECT_THAT(refusal("--node-rank 1 a"), HasSubstr("--node-rank is 1; allowed: 0, since --nnodes is 1"));
  EXPECT_THAT(refusal("--nnodes 2 --node-rank 2 a"), HasSubstr("allowed: 0 to 1, since --nnodes is 2"));
  EXPECT_THAT(refusal("--nnodes 2 --standalone a"), HasSubstr("--standalone is for one node"));
  EXPECT_THAT(refusal("--rdzv-endpoint host:x a"), HasSubstr("allowed: HOST or HOST:PORT"));
  EXPECT_THAT(refusal("--rdzv-endpoint host:65536 a"), HasSubstr("allowed: HOST or HOST:PORT"));
  EXPECT_THAT(refusal("--rdzv-conf timeout a"), HasSubstr("--rdzv-conf has \"timeout\"; allowed: KEY=VALUE"));
  EXPECT_THAT(refusal("--rdzv-conf join_timeout=x a"), HasSubstr("a number from 1"));
  EXPECT_THAT(parse("--rdzv-conf read_timeout=5 a").ValueOrDie().notes,
              ElementsAre(HasSubstr("--rdzv-conf read_timeout=5 is not used")));
  EXPECT_THAT(parse("--nnodes 1:1 --standalone --rdzv-endpoint=host:1 a").ValueOrDie().notes, IsEmpty());
  EXPECT_THAT(refusal("--logs-specs mine a"), HasSubstr("plug-in"));
  EXPECT_THAT(parse("--log-dir /x a").ValueOrDie().notes, ElementsAre(HasSubstr("--storage-path")));
}

TEST(RunFlags, HostsAreNamedOrStandInAFile) {
  const auto hosts = [](const std::string& line) { return parse(line).ValueOrDie().hosts; };
  EXPECT_THAT(hosts("a"), IsEmpty());
  EXPECT_THAT(hosts("--hosts one,me@two, a"), ElementsAre("one", "me@two"));
  const testing::TemporaryFolder folder;
  testing::write_file(folder.path() + "/hosts", "# mine\none slots=8\n\n  two # spare\n");
  EXPECT_THAT(hosts("--hosts " + folder.path() + "/hosts a"), ElementsAre("one", "two"));
  testing::write_file(folder.path() + "/none", "# nobody\n");
  EXPECT_THAT(refusal("--hosts " + folder.path() + "/none a"), HasSubstr("allowed: names of machines"));
  EXPECT_THAT(refusal("--hosts one --nnodes 2 a"), HasSubstr("--hosts and --nnodes"));
  EXPECT_THAT(refusal("--hosts one --debug-rank 0 a"), HasSubstr("leave out --hosts"));
  for (const std::string flag : {"--local-addr 10.0.0.2", "--node-rank 0", "--master-addr h", "--master-port 7",
                                 "--rdzv-endpoint h:7", "--token-file /f"}) {
    const std::string name = flag.substr(0, flag.find(' '));
    EXPECT_THAT(refusal("--hosts one " + flag + " a"), StartsWith(name + " is about a node")) << flag;
    EXPECT_THAT(refusal(flag + " --engine ray a"), HasSubstr("nodes of --engine ray find out")) << flag;
  }
  const auto variable = [](const std::string& name) {
    return name == "PET_LOCAL_ADDR" ? std::optional<std::string>("10.0.0.2") : std::nullopt;
  };
  EXPECT_EQ(parse_run_flags(words_of("--hosts one a"), {.variables = variable}).ValueOrDie().nodes.local_address, "");
  EXPECT_THAT(refusal("--ship a"), HasSubstr("--ship needs --hosts"));
  EXPECT_TRUE(parse("--hosts one --ship a").ValueOrDie().ship);
}

// A new flag stands here when it has its effect before a program with fit() too, or had none to have.
TEST(RunFlags, ThoseThatDoNotReachAProgramWithFitAreNoted) {
  const std::set<std::string> reach = {
      "--num-workers",    "--name",       "--storage-path", "--debug-rank", "--quiet",    "--help",
      "--nnodes",         "--standalone", "--module",       "--no-python",  "--run-path", "--max-restarts",
      "--nproc-per-node", "--tee",        "--node-rank",    "--hosts",      "--ship",     "--driver"};
  const std::map<std::string, std::string> values = {{"--start-method", "fork"}, {"--numa-binding", "node"}};
  for (const RunFlagInfo& flag : run_flag_table()) {
    const std::string name = flag.names.substr(flag.names.find("--"));
    const auto value = values.find(name);
    const std::string given = value != values.end() ? value->second : name == "--signals-to-handle" ? "SIGTERM" : "0";
    const auto flags = parse(name + (flag.value.empty() ? "" : " " + given) + " a");
    if (reach.contains(name)) {
      EXPECT_TRUE(!flags.ok() || flags->driver_notes.empty()) << name;
    } else {
      EXPECT_TRUE(!flags.ok() || flags->driver_notes.size() + flags->notes.size() == 1) << name;
    }
  }
  EXPECT_THAT(parse("--shutdown-timeout 7 --virtual-local-rank a").ValueOrDie().driver_notes,
              ElementsAre("--shutdown-timeout 7 has no effect on a program that calls fit(): its FailureConfig says "
                          "stop_grace_s",
                          HasSubstr("--virtual-local-rank has no effect")));
}

TEST(RunFlags, WrongOnesAreExplained) {
  EXPECT_THAT(refusal("--nproc-pre-node 2 a"), HasSubstr("did you mean \"--nproc-per-node\""));
  EXPECT_THAT(refusal("--rdzv x a"), HasSubstr("several flags: --rdzv-backend"));
  EXPECT_THAT(refusal("-z a"), HasSubstr("no flag -z"));
  EXPECT_THAT(refusal("--name"), HasSubstr("--name takes a value: --name NAME"));
  EXPECT_THAT(refusal("--quiet=1 a"), HasSubstr("takes no value"));
  EXPECT_THAT(refusal("--debug-rank 2 -n 2 a"), HasSubstr("allowed: 0 to 1"));
  EXPECT_THAT(refusal("-n 2"), HasSubstr("no program is given"));
  EXPECT_THAT(refusal("-m --no-python a"), HasSubstr("exclude each other"));
  EXPECT_THAT(refusal("--master-port 65536 a"), HasSubstr("65535"));
  EXPECT_TRUE(parse("--help").ValueOrDie().help);
}

TEST(RunFlags, SignalsAndTheTimeToEnd) {
  EXPECT_THAT(parse("a").ValueOrDie().signals, ElementsAre(SIGTERM, SIGINT, SIGHUP, SIGQUIT));
  const RunFlags flags = parse("--signals-to-handle SIGTERM,USR1 --shutdown-timeout 7 a").ValueOrDie();
  EXPECT_THAT(flags.signals, ElementsAre(SIGTERM, SIGUSR1));
  EXPECT_EQ(flags.shutdown_timeout_s, 7);
  EXPECT_THAT(refusal("--signals-to-handle SIGKILL a"), HasSubstr("\"SIGKILL\""));
}

TEST(RunFlags, SayWhatTheTerminalShows) {
  const auto shown = [](const std::string& line) { return parse(line).ValueOrDie().shown; };
  EXPECT_TRUE(shown("a").shows(1, "stdout"));
  EXPECT_FALSE(shown("-r 3 a").shows(1, "stdout"));
  EXPECT_TRUE(shown("-r 1 a").shows(1, "stderr"));
  EXPECT_FALSE(shown("-r 1:2 a").shows(1, "stderr"));
  EXPECT_TRUE(shown("-r 1:2 a").shows(0, "stderr"));
  EXPECT_TRUE(shown("-r 3 -t 0:1 a").shows(0, "stdout"));
  EXPECT_FALSE(shown("-r 3 -t 0:1 a").shows(1, "stdout"));
  EXPECT_FALSE(shown("--local-ranks-filter 0,2 a").shows(1, "stdout"));
  EXPECT_TRUE(shown("--local-ranks-filter 0,2 a").shows(2, "stderr"));
  EXPECT_THAT(refusal("-r 4 a"), HasSubstr("0 to 3"));
}

// One row for each, `--flag VALUE` | what it does; torchrun's own that do what they do there are named before it.
TEST(RunFlags, AreAllInTheGuide) {
  std::ifstream file(std::string(PACELINE_SOURCE_FOLDER) + "/docs/launching.md");
  const std::string guide{std::istreambuf_iterator<char>(file), {}};
  for (const RunFlagInfo& flag : run_flag_table()) {
    const std::string row = "\n| `" + flag.usage() + "` | " + flag.what + " |\n";
    const std::string name = flag.names.substr(0, flag.names.find(','));
    const bool is_named = flag.torchruns && guide.find("`" + name + "`") != std::string::npos;
    EXPECT_TRUE(is_named || guide.find(row) != std::string::npos) << flag.usage();
  }
}

// torchrun itself is the oracle.
TEST(RunFlags, AreReadAsTorchrunReadsThem) {
  const auto cases = testing::python_reference("paceline/cli/commands/run_flags_test.py");
  if (!cases) GTEST_SKIP() << "no torch to ask";
  for (const Json& one : *cases) {
    const auto arguments = one["arguments"].get<Words>();
    SCOPED_TRACE(one["arguments"].dump());
    const auto read = parse_run_flags(
        arguments, {.cores = 6, .variables = [&](const std::string& name) {
                      const auto found = one["variables"].find(name);
                      return found == one["variables"].end() ? std::nullopt : std::optional(found->get<std::string>());
                    }});
    const Json& torchrun = one["torchrun"];
    ASSERT_EQ(read.ok(), !torchrun.is_null()) << read.status();
    if (!read.ok()) continue;
    EXPECT_EQ(std::to_string(read->num_workers.value_or(1)), torchrun["nproc"].get<std::string>());
    EXPECT_EQ(read->max_restarts.value_or(0), torchrun["max_restarts"]);
    EXPECT_EQ(read->program.module, torchrun["module"]);
    EXPECT_EQ(read->program.no_python, torchrun["no_python"]);
    EXPECT_EQ(read->role, torchrun["role"].get<std::string>());
    EXPECT_EQ(read->run_id, torchrun["rdzv_id"].get<std::string>());
    EXPECT_EQ(read->master_address, torchrun["master_addr"].get<std::string>());
    EXPECT_EQ(read->master_port.value_or(0), torchrun["master_port"]);
    const NodeFlags& nodes = read->nodes;
    const std::string least = std::to_string(nodes.least);
    EXPECT_THAT(torchrun["nnodes"].get<std::string>(), AnyOf(least, least + ":" + std::to_string(nodes.most)));
    EXPECT_EQ(nodes.rank.value_or(0), torchrun["node_rank"]);
    EXPECT_EQ(nodes.local_address, torchrun["local_addr"].get<std::string>());
    if (torchrun["rdzv_endpoint"].get<std::string>().empty()) {
      EXPECT_EQ(nodes.host, torchrun["master_addr"].get<std::string>());
    } else {
      EXPECT_EQ(nodes.host + ":" + std::to_string(nodes.port), torchrun["rdzv_endpoint"].get<std::string>());
    }
    EXPECT_EQ(read->virtual_local_rank, torchrun["virtual_local_rank"]);
    EXPECT_EQ(read->program.words, torchrun["words"].get<Words>());
  }
}

}  // namespace
}  // namespace paceline::cli
