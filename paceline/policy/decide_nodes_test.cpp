#include <gmock/gmock.h>

#include <set>

#include "paceline/policy/decide_fixture.h"

namespace paceline::policy {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// Two workers on two nodes of an engine that may give others.
RunOptions spread_over_two() {
  return {.num_workers = 2,
          .nodes = 2,
          .nodes_may_come = true,
          .cpus_per_worker = 2,
          .placement_strategy = "SPREAD",
          .max_failures = 2};
}

Node node_of(const std::string& name) {
  return {.name = name, .host = name, .cores = 2};
}

TEST(Nodes, ALostOneEndsARunThatGetsNoOther) {
  Play run = Play::training({.num_workers = 2, .max_failures = -1});
  run.feed(NodeLost{"node0", "its guardian was killed"});
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("its guardian was killed"));
}

TEST(Nodes, ALossEndsTheAttemptAndTheNextWaitsForANode) {
  Play run = Play::training(spread_over_two());
  run.feed(NodeLost{"node1", "its connection broke"});
  EXPECT_EQ(run.state(), State::restarting) << "the other node's worker is ended first";
  run.exit_all();
  EXPECT_EQ(run.state(), State::initializing);
  EXPECT_EQ(run.all().worker_failures, 1);
  EXPECT_THAT(run.wanted<EnterState>().back().reason, HasSubstr("waiting for nodes"));
  EXPECT_THAT(run.wanted<EnterState>().back().reason, HasSubstr("room for 1: node0 has 2 CPUs; node1 is lost"));
  run.feed(NodeJoined{node_of("node2")});
  EXPECT_EQ(run.state(), State::scheduling);
  EXPECT_EQ(run.all().attempt.value, 2);
  for (const StartWorker& start : run.wanted<StartWorker>()) EXPECT_NE(start.node, 1) << "the lost one";
}

TEST(Nodes, OneThatCannotBeReachedIsTheCauseOfWhatOthersMiss) {
  RunOptions options = spread_over_two();
  options.max_failures = 0;
  Play run = Play::training(options);
  run.feed(NodeUnreachable{"node1"});
  run.feed(WorkerFailed{.worker = {1}, .exception = "CollectiveError", .text = "peer is gone", .collateral = true});
  EXPECT_EQ(run.state(), State::shutting_down);
  run.exit_all();
  EXPECT_THAT(run.all().error, HasSubstr("ode node1 is lost: the connection to its agent is cut"));
  EXPECT_FALSE(run.all().nodes[1].lost) << "it may come back";
}

TEST(Nodes, OneThatCannotBeReachedCostsNothingWhereNobodyMissesIt) {
  RunOptions options = spread_over_two();
  options.num_workers = 1;
  Play run = Play::training(options);
  run.feed(NodeUnreachable{"node1"});
  EXPECT_EQ(run.state(), State::running);
}

TEST(Nodes, OneThatCannotBeStartedEndsARunThatNeedsIt) {
  Play run(spread_over_two());
  run.feed(NodeJoined{node_of("node0")});
  run.feed(NodeNotStarted{.node = "node1", .error = "ssh exited with code 255", .to_come = 1});
  EXPECT_EQ(run.state(), State::initializing) << "another is on its way";
  run.feed(NodeNotStarted{.node = "node2", .error = "ssh exited with code 255", .to_come = 0});
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("No agent could be started on node node2: ssh exited with code 255"));
}

TEST(Nodes, OneThatCannotBeStartedLaterIsAWarning) {
  Play run = Play::training(spread_over_two());
  run.feed(NodeNotStarted{.node = "spare", .error = "ssh exited with code 255", .to_come = 0});
  EXPECT_EQ(run.state(), State::running);
}

// A machine that dies takes its connections along at once, and counts as lost when it has been silent for long enough.
TEST(Nodes, OneWhosePeersFailedFirstIsNamedAllTheSame) {
  Play run = Play::training(spread_over_two());
  run.feed(WorkerFailed{.worker = {1}, .exception = "DistBackendError", .text = "closed by peer", .collateral = true});
  run.feed(WorkerExited{.worker = {1}, .end = {.status = {.exit_code = 1}}});
  run.fire_timer();
  EXPECT_EQ(run.state(), State::restarting) << "no cause has shown";
  run.feed(NodeLost{"node1", "nothing was heard from it"});
  ASSERT_THAT(run.wanted<Note>(), Not(IsEmpty()));
  EXPECT_EQ(run.wanted<Note>()[0].text, "node node1 is lost: nothing was heard from it");
  ASSERT_THAT(run.wanted<CloseGroup>(), SizeIs(1));
  EXPECT_THAT(run.wanted<CloseGroup>()[0].failure, HasSubstr("node node1 is lost"));
}

// Its processes end with its lease: the next group must not begin beside them.
TEST(Nodes, ASilentOneIsNotGivenUpBeforeItIsLost) {
  RunOptions options = spread_over_two();
  options.node_timeout_s = 300;
  Play run = Play::training(options);
  run.feed(StopRequested{.reason = "SIGINT", .cause = StopCause::interrupt});
  ASSERT_EQ(run.state(), State::shutting_down);
  EXPECT_GT(run.wanted<SetTimer>().back().at - run.now(), std::chrono::seconds(300));
}

TEST(Nodes, OneWhereTwoGroupsFailedIsAvoided) {
  RunOptions options = spread_over_two();
  options.nodes = 3;
  options.placement_strategy = "STRICT_SPREAD";
  options.max_failures = -1;
  Play run(options);
  for (const char* name : {"node0", "node1", "node2"}) run.feed(NodeJoined{node_of(name)});
  run.join_all();
  const auto nodes_of_group = [&run] {
    std::set<int64_t> nodes;
    for (const auto& [id, worker] : run.all().workers) nodes.insert(worker.node);
    return nodes;
  };
  for (int attempt = 1; attempt <= 2; ++attempt) {
    ASSERT_EQ(nodes_of_group(), (std::set<int64_t>{0, 1}));
    run.feed(WorkerFailed{.worker = run.worker(1), .exception = "OSError", .text = "No space left on device"});
    run.exit_all();
    if (run.all().backing_off) run.fire_timer();
    run.join_all();
  }
  EXPECT_EQ(nodes_of_group(), (std::set<int64_t>{0, 2}));
}

TEST(Nodes, ASpareOneIsUsedAtOnce) {
  Play run = Play::training(spread_over_two());
  run.feed(NodeJoined{node_of("spare")});
  EXPECT_EQ(run.state(), State::running);
  run.feed(NodeLost{"node0", "its connection broke"});
  run.exit_all();
  EXPECT_EQ(run.state(), State::scheduling);
}

TEST(Nodes, TheLossOfASpareOneCostsNothing) {
  Play run = Play::training(spread_over_two());
  run.feed(NodeJoined{node_of("spare")});
  run.feed(NodeLost{"spare", "its connection broke"});
  EXPECT_EQ(run.state(), State::running);
  EXPECT_THAT(run.all().failures, IsEmpty());
}

TEST(Nodes, ThatAreNeverReplacedEndTheRunWithTheTable) {
  Play run = Play::training(spread_over_two());
  run.feed(NodeLost{"node1", "its connection broke"});
  run.exit_all();
  run.fire_timer();
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("no other node came within 60 s"));
}

TEST(Nodes, AllLostAtOnceAreWaitedForToo) {
  Play run = Play::training(spread_over_two());
  run.feed(NodeLost{"node0", "its connection broke"});
  run.feed(NodeLost{"node1", "its connection broke"});
  EXPECT_EQ(run.state(), State::initializing);
  run.feed(NodeJoined{node_of("node2")});
  EXPECT_EQ(run.state(), State::initializing) << "room for one only";
  run.feed(NodeJoined{node_of("node3")});
  EXPECT_EQ(run.state(), State::scheduling);
  EXPECT_EQ(run.all().worker_failures, 1) << "two nodes, one failure of the group";
}

TEST(Nodes, AreWaitedForWhereTheFirstGroupDoesNotFit) {
  RunOptions options = spread_over_two();
  options.num_workers = 3;
  Play run(options);
  run.bring_up_nodes();
  EXPECT_EQ(run.state(), State::initializing);
  run.feed(NodeJoined{node_of("from_the_autoscaler")});
  EXPECT_EQ(run.state(), State::scheduling);
}

TEST(Nodes, AStopEndsTheWaiting) {
  Play run = Play::training(spread_over_two());
  run.feed(NodeLost{"node1", "its connection broke"});
  run.exit_all();
  run.feed(StopRequested{.cause = StopCause::interrupt});
  EXPECT_EQ(run.state(), State::aborted);
}

TEST(Nodes, ALostOneTakesItsDataProcessAlong) {
  RunOptions options = spread_over_two();
  options.has_datasets = true;
  Play run = Play::training(options);
  run.feed(NodeJoined{node_of("spare")});
  run.feed(NodeLost{"node0", "its connection broke"});
  run.exit_all();
  const auto started = run.wanted<StartDataProcess>();
  ASSERT_THAT(started, SizeIs(1)) << "on the spare node; node1 has its own";
  EXPECT_EQ(started[0].node, 2);
}

TEST(Nodes, ValidationsOfALostOneBeginAnewElsewhere) {
  RunOptions options = spread_over_two();
  options.max_validations = 1;
  Play run = Play::training(options);
  run.feed(CheckpointReady{.report = 1, .validation = ValidationTaskConfig{}});
  run.feed(CheckpointPublished{{.report = 1}});
  ASSERT_THAT(run.wanted<StartValidation>(), SizeIs(1));
  const int64_t node = run.wanted<StartValidation>()[0].node;
  run.feed(NodeLost{run.all().nodes[static_cast<size_t>(node)].name, "its connection broke"});
  ASSERT_THAT(run.wanted<StartValidation>(), SizeIs(1));
  EXPECT_NE(run.wanted<StartValidation>()[0].node, node);
}

// As one that takes more memory than a node has.
TEST(Nodes, AValidationThatTakesTwoAlongIsGivenUp) {
  RunOptions options = spread_over_two();
  options.max_validations = 1;
  options.max_failures = -1;
  Play run = Play::training(options);
  for (const char* spare : {"node2", "node3"}) run.feed(NodeJoined{node_of(spare)});
  run.feed(CheckpointReady{.report = 1, .validation = ValidationTaskConfig{}});
  run.feed(CheckpointPublished{{.report = 1}});
  for (int loss = 1; loss <= 2; ++loss) {
    ASSERT_THAT(run.all().validations, SizeIs(1));
    const int64_t node = run.all().validations[0].node;
    run.feed(NodeLost{run.all().nodes[static_cast<size_t>(node)].name, "its connection broke"});
  }
  EXPECT_THAT(run.all().validations, IsEmpty());
  EXPECT_EQ(run.all().checkpoints.back().status, CheckpointStatus::validation_failed);
}

// `paceline run --nnodes LEAST:MOST`.
RunOptions torchruns(int64_t least, int64_t most) {
  return {.num_workers = 2 * least,
          .nodes = least,
          .nodes_may_come = true,
          .most_nodes = most,
          .last_call_s = 30,
          .max_failures = 2,
          .launch = true};
}

Node with_two(const std::string& name, int64_t rank) {
  Node node = node_of(name);
  node.rank = rank;
  node.workers = 2;
  return node;
}

TEST(Nodes, OfALaunchHaveTheirRanksHoweverTheyCome) {
  Play run(torchruns(3, 3));
  run.feed(NodeJoined{with_two("last", 2)});
  Node small = with_two("first", 0);
  small.workers = 1;
  run.feed(NodeJoined{small});
  EXPECT_EQ(run.state(), State::initializing);
  run.feed(NodeJoined{with_two("middle", 1)});
  EXPECT_EQ(run.state(), State::scheduling);
  EXPECT_EQ(run.all().world_size, 5);
  run.join_all();
  std::vector<std::string> places;
  for (const auto& [id, worker] : run.all().workers) {
    places.push_back(run.all().nodes[static_cast<size_t>(worker.node)].name + " " + std::to_string(worker.rank) + " " +
                     std::to_string(worker.node_rank) + " " + std::to_string(worker.local_rank));
  }
  EXPECT_THAT(places,
              ::testing::ElementsAre("first 0 0 0", "middle 1 1 0", "middle 2 1 1", "last 3 2 0", "last 4 2 1"));
}

TEST(Nodes, BeyondTheLeastHaveSomeTimeToCome) {
  Play run(torchruns(1, 3));
  run.feed(NodeJoined{with_two("one", 0)});
  EXPECT_EQ(run.state(), State::initializing);
  EXPECT_EQ(to_seconds(run.wanted<SetTimer>().at(0).at) - to_seconds(run.now()), 30);
  run.feed(NodeJoined{with_two("two", 1)});
  EXPECT_EQ(run.state(), State::initializing) << "a third may come";
  EXPECT_THAT(run.wanted<SetTimer>(), IsEmpty()) << "its time runs on";
  run.fire_timer();
  EXPECT_EQ(run.state(), State::scheduling);
  EXPECT_EQ(run.all().world_size, 4);
}

TEST(Nodes, AreNotWaitedForWhenAllHaveCome) {
  Play run(torchruns(1, 2));
  run.feed(NodeJoined{with_two("one", 0)});
  run.feed(NodeJoined{with_two("two", 1)});
  EXPECT_EQ(run.state(), State::scheduling);
}

TEST(Nodes, ThatAreLostBeforeTheStartAreWaitedForAgain) {
  Play run(torchruns(2, 3));
  run.feed(NodeJoined{with_two("one", 0)});
  run.feed(NodeJoined{with_two("two", 1)});
  run.feed(NodeLost{"two", "its connection broke"});
  EXPECT_EQ(to_seconds(run.wanted<SetTimer>().at(0).at) - to_seconds(run.now()), 60);
  run.fire_timer();
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("nly 1 of 2 nodes came within 60 s"));
}

TEST(Nodes, OfALaunchThatIsLostIsWaitedForWhereTheRestIsTooFew) {
  Play run(torchruns(2, 2));
  run.feed(NodeJoined{with_two("one", 0)});
  run.feed(NodeJoined{with_two("two", 1)});
  run.join_all();
  run.feed(NodeLost{"two", "its connection broke"});
  run.exit_all();
  EXPECT_EQ(run.state(), State::initializing);
  EXPECT_THAT(run.wanted<EnterState>().back().reason,
              HasSubstr("2 nodes are needed (--nnodes), and there is 1: one is there, two is lost"));
  run.feed(NodeJoined{with_two("again", 1)});
  EXPECT_EQ(run.state(), State::scheduling);
  EXPECT_EQ(run.all().attempt.value, 2);
  EXPECT_EQ(run.all().world_size, 4);
}

TEST(Nodes, OfALaunchThatIsLostIsDoneWithoutAfterAWhileWhereTheRestIsEnough) {
  Play run(torchruns(1, 2));
  run.feed(NodeJoined{with_two("one", 0)});
  run.feed(NodeJoined{with_two("two", 1)});
  run.join_all();
  run.feed(NodeLost{"two", "its connection broke"});
  run.exit_all();
  EXPECT_EQ(run.state(), State::initializing);
  run.fire_timer();
  EXPECT_EQ(run.state(), State::scheduling);
  EXPECT_EQ(run.all().world_size, 2);
  run.join_all();
  run.exit(run.worker(0), {.exit_code = 1});
  run.exit_all();
  run.fire_timer();  // the pause after the second failure in a row
  EXPECT_EQ(run.state(), State::scheduling);
  EXPECT_EQ(run.all().attempt.value, 3) << "as many as before are there: nobody is waited for";
}

}  // namespace
}  // namespace paceline::policy
