// Ranks of several nodes are lost, late, or let go, and the others are told who.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <future>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "paceline/comm/nodes/nodes_fixture.h"
#include "paceline/comm/torchrun_fixture.h"
#include "paceline/core/peer_lost.h"
#include "paceline/testing/group_conformance.h"
#include "paceline/testing/in_fork.h"

namespace paceline::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What the others are told of a collective to which a rank does not come.
std::vector<CollectiveError> failures_without(const Groups& groups, int64_t gone) {
  std::vector<std::future<CollectiveError>> waiting;
  for (const auto& group : groups) {
    if (group->rank() == gone) continue;
    waiting.push_back(std::async(std::launch::async, [group] {
      torch::Tensor tensor = torch::ones({3});
      return testing::failure_of([&] { group->all_reduce(tensor, ReduceOp::sum); });
    }));
  }
  std::vector<CollectiveError> failures;
  for (auto& one : waiting) failures.push_back(one.get());
  return failures;
}

TEST(HierarchicalLosses, WhoIsGoneIsNamedOnAllNodes) {
  for (const int64_t gone : {0, 1, 2, 4}) {  // leaders, and others
    const Groups groups = on_two_nodes(5);
    groups[static_cast<size_t>(gone)]->abort();
    for (const CollectiveError& failure : failures_without(groups, gone)) {
      EXPECT_EQ(failure.cause(), CollectiveCause::other_rank);
      EXPECT_THAT(failure.what(), HasSubstr("for want of rank " + std::to_string(gone)));
    }
  }
}

TEST(HierarchicalLosses, WhoDoesNotComeIsNamedOnAllNodes) {
  for (const int64_t gone : {0, 3}) {
    GroupOptions options;
    options.timeout = std::chrono::milliseconds(500);
    const Groups groups = on_nodes({"a", "a", "b", "b"}, options);
    for (const CollectiveError& failure : failures_without(groups, gone)) {
      EXPECT_THAT(failure.what(), HasSubstr("for want of rank " + std::to_string(gone)));
    }
  }
}

// Those who wait for somebody are late themselves, for leaders that have called before.
TEST(HierarchicalLosses, WhoIsLateIsNamedByWhomeverItKeeps) {
  GroupOptions options;
  options.timeout = std::chrono::milliseconds(1500);
  const Groups groups = on_nodes({"a", "a", "b", "b"}, options);
  std::promise<void> others_wait;
  std::vector<std::future<std::string>> told;
  for (const int64_t rank : {0, 2, 3}) {
    told.push_back(std::async(std::launch::async, [&, rank, group = groups[static_cast<size_t>(rank)]] {
      torch::Tensor tensor = torch::ones({3});
      // More than the leaders have to ask each other.
      if (rank == 0) others_wait.get_future().wait_for(std::chrono::milliseconds(1200));
      return std::string(testing::failure_of([&] { group->all_reduce(tensor, ReduceOp::sum); }).what());
    }));
  }
  for (auto& one : told) EXPECT_THAT(one.get(), HasSubstr("for want of rank 1"));
}

// Without OpenMP, whose threads a fork lacks.
torch::Tensor bytes_of(int value) {
  torch::Tensor bytes = torch::empty({64 << 20}, torch::kUInt8);
  std::memset(bytes.mutable_data_ptr(), value, bytes.nbytes());
  return bytes;
}

// Ends this process once the first values of others have come, of so many that most are still on their way.
void end_while_values_come(Group& group) {
  torch::Tensor given = bytes_of(1), whole = bytes_of(0);
  std::vector<int64_t> alike;
  const auto work = group.process_group()->getBackend(torch::kCPU)->alltoall_base(whole, given, alike, alike);
  const int64_t part = whole.numel() / group.size();
  const auto* values = static_cast<const volatile uint8_t*>(whole.const_data_ptr());
  const int64_t other_node = group.rank() < 2 ? 2 : 0;
  while (values[other_node * part] == 0 && values[(other_node + 1) * part] == 0) {
  }
  ::raise(SIGKILL);
}

// Two ranks of the other node wait for each other in a later call, and for rank 1 alone.
TEST(HierarchicalLosses, WhoWaitsInAnEarlierCallIsNotLate) {
  GroupOptions options;
  options.timeout = std::chrono::milliseconds(1500);
  const Groups groups = on_nodes({"a", "a", "b", "b"}, options);
  std::vector<std::future<std::string>> told;
  for (const int64_t rank : {0, 2, 3}) {
    told.push_back(std::async(std::launch::async, [rank, group = groups[static_cast<size_t>(rank)]] {
      std::vector<torch::Tensor> first{torch::ones({3})}, second{torch::ones({3})};
      return std::string(testing::failure_of([&] {
                           const auto one = group->process_group()->allreduce(first);
                           if (rank != 2) return (void)one->wait();
                           group->process_group()->allreduce(second)->wait();
                         }).what());
    }));
  }
  for (auto& one : told) {
    EXPECT_THAT(one.get(), AllOf(HasSubstr("all_reduce number 1 "), HasSubstr("for want of rank 1: it has not come")));
  }
}

enum class Loss { before_the_call, while_values_come };

// Rank 0 is this process, the others are its children; `gone` ends in the middle of a collective.
void expect_named_when_killed(int gone, Loss when = Loss::before_the_call) {
  ::signal(SIGPIPE, SIG_IGN);  // the store's server may write to who was killed
  const TorchrunAgent agent(4);
  const auto name_of_the_lost = [gone, when](int rank) -> std::string {
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    GroupOptions options;
    options.timeout = std::chrono::minutes(10);
    options.node = rank < 2 ? "a" : "b";
    const auto group = Group::from_torchrun_environment(options);
    torch::Tensor tensor = torch::ones({3});
    try {
      // The loss may be told before this rank has returned from the call that the lost one was in.
      group->all_reduce(tensor, ReduceOp::sum);
      if (rank == gone) when == Loss::before_the_call ? (void)::raise(SIGKILL) : end_while_values_come(*group);
      if (when == Loss::while_values_come) {
        torch::Tensor given = bytes_of(1), whole = bytes_of(0);
        group->all_to_all(whole, given);
      }
      group->all_reduce(tensor, ReduceOp::sum);
    } catch (const PeerLost& lost) {
      return lost.what();
    }
    return "nobody is missed";
  };
  const std::string named = "for want of rank " + std::to_string(gone);
  // Nobody connects before all are forked: a fork has the locks of the store's threads as they stood.
  int gate[2];
  ASSERT_EQ(::pipe2(gate, O_CLOEXEC), 0);
  std::vector<pid_t> children;
  for (int rank = 1; rank < 4; ++rank) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    ::close(gate[1]);
    bool is_named = false;
    try {
      char nothing = 0;
      (void)!::read(gate[0], &nothing, 1);
      is_named = name_of_the_lost(rank).find(named) != std::string::npos;
    } catch (...) {
      ::_exit(2);
    }
    ::_exit(is_named ? 0 : 1);
  }
  ::close(gate[0]);
  ::close(gate[1]);
  EXPECT_THAT(name_of_the_lost(0), HasSubstr(named));
  for (int rank = 1; rank < 4; ++rank) {
    int status = 0;
    ::waitpid(children[static_cast<size_t>(rank - 1)], &status, 0);
    EXPECT_EQ(status, rank == gone ? SIGKILL : 0) << rank;
  }
}

TEST(HierarchicalLosses, WhoIsKilledIsNamedOnAllNodes) {
  if (!testing::kForksBesideThreadsMayAllocate) GTEST_SKIP() << "forks cannot allocate";
  expect_named_when_killed(3);
  expect_named_when_killed(2);  // a leader
}

// Gloo does not say that what it was sending will not arrive.
TEST(HierarchicalLosses, WhoIsKilledWhileValuesComeIsNamedOnAllNodes) {
  if (!testing::kForksBesideThreadsMayAllocate) GTEST_SKIP() << "forks cannot allocate";
  for (const int gone : {1, 2, 3}) expect_named_when_killed(gone, Loss::while_values_come);
}

TEST(HierarchicalLosses, AMessageToWhoIsGoneFailsOnceThatIsKnown) {
  const Groups groups = on_two_nodes(4);
  std::vector<std::future<std::string>> told;
  for (const int64_t rank : {0, 1, 3}) {
    told.push_back(std::async(std::launch::async, [rank, group = groups[static_cast<size_t>(rank)]] {
      std::vector<torch::Tensor> tensors{torch::ones({1 << 20})};
      return std::string(
          testing::failure_of([&] {
            const auto& process_group = group->process_group();
            (rank == 0 ? process_group->send(tensors, 2, 0) : process_group->recv(tensors, 2, 0))->wait();
          }).what());
    }));
  }
  groups[2]->abort();
  for (auto& one : told) EXPECT_THAT(one.get(), HasSubstr("for want of rank 2: it has aborted"));
}

// Who has waited too long says so itself, at once: Gloo's connections end with it, which others would be blamed for.
TEST(HierarchicalLosses, AWaitForAMessageMayEndAndNamesWhomItWaitedFor) {
  const Groups groups = on_two_nodes(4);
  std::vector<torch::Tensor> tensors{torch::ones({4})};
  groups[1]->process_group()->getBackend(torch::kCPU)->setTimeout(std::chrono::milliseconds(50));
  const auto message = groups[1]->process_group()->recv(tensors, 2, 0);
  EXPECT_THAT(testing::failure_of([&] { message->wait(std::chrono::milliseconds(1)); }).what(),
              HasSubstr("not over after the 1 ms that wait() was given; it goes on"));
  for (int time = 0; time < 2; ++time) {
    EXPECT_THAT(testing::failure_of([&] { message->wait(); }).what(),
                HasSubstr("recv failed on rank 1 of 4 for want of rank 2: it is not over after 50 ms"));
  }
  for (const CollectiveError& failure : failures_without(groups, 1)) {
    EXPECT_THAT(failure.what(), HasSubstr("the first failure of the group: recv failed on rank 1 of 4"));
  }
}

TEST(HierarchicalLosses, ALeaderThatIsAloneOnItsNodeIsMissedToo) {
  const Groups groups = on_nodes({"a", "a", "b"});
  groups[2]->abort();
  for (const CollectiveError& failure : failures_without(groups, 2)) {
    EXPECT_EQ(failure.cause(), CollectiveCause::other_rank);
    EXPECT_THAT(failure.what(), HasSubstr("for want of rank 2: it has aborted"));
  }
}

// Nobody else fails with it: Gloo sees a connection that has broken.
TEST(HierarchicalLosses, WhoIsGoneIsNamedWhereAllRanksExchangeToo) {
  for (const int64_t gone : {0, 1, 3}) {
    const Groups groups = on_two_nodes(4);
    std::vector<std::future<std::string>> told;
    for (const auto& group : groups) {
      told.push_back(std::async(std::launch::async, [group, gone]() -> std::string {
        if (group->rank() == gone) {
          group->abort();
          return "";
        }
        torch::Tensor tensor = torch::ones({4}), whole = torch::zeros({4});
        return testing::failure_of([&] { group->all_to_all(whole, tensor); }).what();
      }));
    }
    for (auto& one : told) {
      const std::string text = one.get();
      if (&one != &told[static_cast<size_t>(gone)]) {
        EXPECT_THAT(text, HasSubstr("for want of rank " + std::to_string(gone)));
      }
    }
  }
}

}  // namespace
}  // namespace paceline::comm
