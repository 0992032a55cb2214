#include "paceline/comm/group.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "paceline/comm/backend.h"
#include "paceline/comm/failure.h"
#include "paceline/comm/reducer.h"
#include "paceline/comm/torchrun_fixture.h"
#include "paceline/rpc/memory_key_value.h"
#include "paceline/testing/group_conformance.h"

namespace paceline::comm {
namespace {

using testing::GroupConformance;
using ::testing::HasSubstr;
using ::testing::Values;
using testing::Worlds;

GroupOptions place(int64_t rank, int64_t world_size) {
  GroupOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.timeout = std::chrono::minutes(1);
  return options;
}

const Identity kGeneration{.epoch = {1}, .attempt = {1}, .generation = {0}, .worker = {1}};

// The way of a worker: all ranks meet over the controller's key-value store.
std::vector<std::shared_ptr<Group>> over_key_value_as(const GroupOptions& settings, int64_t world_size) {
  rpc::MemoryKeyValueStore store;
  std::vector<std::future<std::shared_ptr<Group>>> futures;
  for (int64_t rank = 0; rank < world_size; ++rank) {
    GroupOptions options = place(rank, world_size);
    options.check_collectives = settings.check_collectives;
    options.backend = settings.backend;
    futures.push_back(std::async(
        std::launch::async, [options, client = store.client(kGeneration)] { return Group::create(options, client); }));
  }
  std::vector<std::shared_ptr<Group>> groups;
  for (auto& future : futures) groups.push_back(future.get());
  return groups;
}

std::vector<std::shared_ptr<Group>> over_key_value(int64_t world_size) {
  return over_key_value_as({}, world_size);
}

std::vector<std::shared_ptr<Group>> with_checks(int64_t world_size) {
  return over_key_value_as({.check_collectives = true}, world_size);
}

std::vector<std::shared_ptr<Group>> over_gloo(int64_t world_size) {
  GroupOptions options;
  options.backend = "gloo";
  return over_key_value_as(options, world_size);
}

INSTANTIATE_TEST_SUITE_P(OverGloo, GroupConformance, Values(Worlds{&over_gloo, {2, 3, 4}}));
INSTANTIATE_TEST_SUITE_P(InProcess, GroupConformance, Values(Worlds{&Group::in_process, {1, 2, 3, 4, 8}}));
INSTANTIATE_TEST_SUITE_P(OverKeyValue, GroupConformance, Values(Worlds{&over_key_value, {2, 3}}));

// As torch.distributed makes them.
std::vector<std::shared_ptr<Group>> over_others(int64_t world_size) {
  static std::vector<std::shared_ptr<Group>> owners;
  owners = over_key_value(world_size);
  std::vector<std::shared_ptr<Group>> groups;
  for (const auto& owner : owners) {
    const auto its = c10::intrusive_ptr<c10d::ProcessGroup>::unsafe_reclaim_from_nonowning(owner->process_group());
    groups.push_back(Group::over(its, place(0, 1)));
  }
  return groups;
}
INSTANTIATE_TEST_SUITE_P(OverOthers, GroupConformance, Values(Worlds{&over_others, {2, 3}}));

INSTANTIATE_TEST_SUITE_P(WithChecks, GroupConformance, Values(Worlds{&with_checks, {2, 3}}));

TEST(Group, FindsCollectivesThatDifferWhereItIsToldTo) {
  testing::run_ranks(with_checks(2), [](const std::shared_ptr<Group>& group) {
    const bool first = group->rank() == 0;
    torch::Tensor tensor = torch::ones({first ? 2 : 3});
    EXPECT_THAT(testing::message_of<CollectiveError>([&] { group->all_reduce(tensor, ReduceOp::sum); }),
                ::testing::AllOf(HasSubstr("[2]"), HasSubstr("[3]")));
    const auto other = [&] { first ? group->all_reduce(tensor, ReduceOp::sum) : group->broadcast(tensor, 0); };
    EXPECT_THAT(testing::message_of<CollectiveError>(other),
                ::testing::AllOf(HasSubstr("ALLREDUCE"), HasSubstr("BROADCAST")));
  });
}

// What the hang report stands on: every collective counts, those that backward starts by itself too.
TEST(Group, CountsItsCollectivesAlikeOnAllRanks) {
  const SystemClock clock;
  rpc::MemoryKeyValueStore store;
  std::vector<std::future<ProgressReading>> ranks;
  for (const int64_t rank : {0, 1}) {
    ranks.push_back(std::async(std::launch::async, [&, rank, client = store.client(kGeneration)] {
      Progress progress = Progress::create(clock).ValueOrDie();
      GroupOptions options = place(rank, 2);
      options.progress = &progress;
      const auto group = Group::create(options, client);
      torch::Tensor tensor = torch::ones({4});
      group->all_reduce(tensor, ReduceOp::sum);
      group->all_gather(tensor);
      std::vector<torch::Tensor> parameters = {torch::zeros({100}, torch::requires_grad())};
      auto reducer = GradientReducer::create(group, parameters, {"a"}, {false}, {});
      reducer->begin_backward();
      parameters[0].sum().backward();
      group->barrier();
      const auto duplicate = group->duplicate();
      group->barrier();
      duplicate->barrier();
      const auto reader = ProgressReader::open(progress.memory().descriptor().duplicate().ValueOrDie()).ValueOrDie();
      return reader.read(clock.monotonic());
    }));
  }
  for (auto& rank : ranks) {
    const ProgressReading reading = rank.get();
    EXPECT_EQ(reading.groups,
              (std::vector<GroupReading>{{1, 5, 5, Collective::barrier}, {2, 3, 3, Collective::barrier}}));
  }
}

TEST(Group, ConnectsByTheInterfaceThatIsNamed) {
  for (const std::string interface : {"lo", "no-such-one"}) {
    rpc::MemoryKeyValueStore store;
    std::vector<std::future<std::string>> ranks;
    for (const int64_t rank : {0, 1}) {
      ranks.push_back(std::async(std::launch::async, [&, rank, client = store.client(kGeneration)]() -> std::string {
        GroupOptions options = place(rank, 2);
        options.backend = "gloo";
        options.interface = interface;
        try {
          Group::create(options, client)->barrier();
          return "";
        } catch (const CollectiveError& failure) {
          return failure.what();
        }
      }));
    }
    for (auto& rank : ranks) {
      const std::string failure = rank.get();
      EXPECT_EQ(failure.empty(), interface == "lo") << failure;
      if (interface != "lo") {
        EXPECT_THAT(failure, HasSubstr("no-such-one"));
      }
    }
  }
}

// A rank that only waits for it later does not wait in it until then.
TEST(Group, AReduceScatterEndsWithoutSomebodyWhoWaitsForIt) {
  const SystemClock clock;
  rpc::MemoryKeyValueStore store;
  std::vector<std::future<GroupReading>> ranks;
  for (const int64_t rank : {0, 1}) {
    ranks.push_back(std::async(std::launch::async, [&, rank, client = store.client(kGeneration)] {
      Progress progress = Progress::create(clock).ValueOrDie();
      GroupOptions options = place(rank, 2);
      options.progress = &progress;
      const auto group = Group::create(options, client);
      torch::Tensor part = torch::zeros({2}), tensor = torch::ones({4});
      const auto work = group->process_group()->getBackend(torch::kCPU)->_reduce_scatter_base(part, tensor);
      (void)work->isCompleted();  // over shared memory it begins when somebody asks
      const auto reader = ProgressReader::open(progress.memory().descriptor().duplicate().ValueOrDie()).ValueOrDie();
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      GroupReading reading;
      do {
        reading = reader.read(clock.monotonic()).groups.at(0);
      } while (reading.done < reading.begun && std::chrono::steady_clock::now() < deadline);
      work->wait();
      EXPECT_TRUE(part.equal(torch::full({2}, 2.0)));
      return reading;
    }));
  }
  for (auto& rank : ranks) EXPECT_EQ(rank.get(), (GroupReading{1, 1, 1, Collective::reduce_scatter}));
}

// Whoever goes on without it is the one that the others wait for.
TEST(Group, WhatNobodyWaitsForHasNotBegun) {
  const SystemClock clock;
  rpc::MemoryKeyValueStore store;
  std::vector<std::future<std::vector<GroupReading>>> ranks;
  for (const int64_t rank : {0, 1}) {
    ranks.push_back(std::async(std::launch::async, [&, rank, client = store.client(kGeneration)] {
      Progress progress = Progress::create(clock).ValueOrDie();
      GroupOptions options = place(rank, 2);
      options.progress = &progress;
      const auto group = Group::create(options, client);
      const auto reader = ProgressReader::open(progress.memory().descriptor().duplicate().ValueOrDie()).ValueOrDie();
      std::vector<torch::Tensor> first{torch::ones({4})}, second{torch::ones({4})};
      const auto early = group->process_group()->getBackend(torch::kCPU)->allreduce(first);
      std::vector<GroupReading> readings{reader.read(clock.monotonic()).groups.at(0)};
      group->process_group()->getBackend(torch::kCPU)->allreduce(second)->wait();  // the first one comes before it
      readings.push_back(reader.read(clock.monotonic()).groups.at(0));
      early->wait();
      readings.push_back(reader.read(clock.monotonic()).groups.at(0));
      EXPECT_TRUE(first[0].equal(torch::full({4}, 2.0)));
      return readings;
    }));
  }
  const GroupReading both{1, 2, 2, Collective::all_reduce};
  for (auto& rank : ranks) EXPECT_EQ(rank.get(), (std::vector<GroupReading>{{1, 0, 0, Collective::none}, both, both}));
}

TEST(Group, GroupsOfSomeRanksAreInTheLedgerToo) {
  const SystemClock clock;
  rpc::MemoryKeyValueStore store;
  std::vector<std::future<void>> ranks;
  std::array<std::vector<CollectiveRecord>, 3> found;
  std::array<std::vector<GroupMembers>, 3> members;
  for (const int64_t rank : {0, 1, 2}) {
    ranks.push_back(std::async(std::launch::async, [&, rank, client = store.client(kGeneration)] {
      Progress progress = Progress::create(clock).ValueOrDie();
      GroupOptions options = place(rank, 3);
      options.progress = &progress;
      const auto group = Group::create(options, client);
      const auto reader = ProgressReader::open(progress.memory().descriptor().duplicate().ValueOrDie()).ValueOrDie();
      if (const auto pair = group->split({2, 0}); pair != nullptr) {
        torch::Tensor tensor = torch::ones({4});
        pair->duplicate()->all_reduce(tensor, ReduceOp::sum);
      }
      group->barrier();
      found[static_cast<size_t>(rank)] = reader.collectives();
      members[static_cast<size_t>(rank)] = reader.members();
    }));
  }
  for (auto& rank : ranks) rank.get();
  EXPECT_TRUE(members[1].empty());
  EXPECT_EQ(members[0], members[2]);
  ASSERT_EQ(members[0].size(), 2u);  // and its duplicate
  for (const GroupMembers& one : members[0]) EXPECT_EQ(one.ranks, (std::vector<int64_t>{0, 2}));
  const auto all_reduces = [](const std::vector<CollectiveRecord>& records) {
    std::vector<std::pair<int64_t, int64_t>> numbers;
    for (const CollectiveRecord& record : records) {
      if (record.call.collective == Collective::all_reduce) numbers.emplace_back(record.group, record.number);
    }
    return numbers;
  };
  EXPECT_EQ(all_reduces(found[0]).size(), 1u);
  EXPECT_EQ(all_reduces(found[0]), all_reduces(found[2]));
  EXPECT_TRUE(all_reduces(found[1]).empty());
}

// Also where values are copied: of strides, and of lists.
TEST(Group, WorksOnTheSameMemoryComeOneAfterTheOther) {
  testing::run_ranks(over_key_value(2), [](const std::shared_ptr<Group>& group) {
    const auto process_group = group->process_group();
    for (const torch::Tensor& whole : {torch::ones({4, 4}), torch::ones({2000, 1000})}) {
      std::vector<torch::Tensor> straight{whole}, strided{whole.t()}, output{torch::zeros_like(whole)};
      std::vector<std::vector<torch::Tensor>> parts{{whole, whole}};
      std::vector<c10::intrusive_ptr<c10d::Work>> works;
      works.push_back(process_group->allreduce(straight));
      works.push_back(process_group->allreduce(strided));
      works.push_back(process_group->allreduce(strided));
      works.push_back(process_group->allreduce(straight));
      works.push_back(process_group->reduce_scatter(output, parts));
      for (const auto& work : works) work->wait();
      EXPECT_TRUE(torch::equal(whole, torch::full_like(whole, 16)));
      EXPECT_TRUE(torch::equal(output[0], torch::full_like(whole, 32)));
    }
  });
}

TEST(Group, AnAbortEndsADuplicateThatIsBeingMade) {
  rpc::MemoryKeyValueStore store;
  const auto watcher = store.client(kGeneration);
  std::vector<std::future<std::shared_ptr<Group>>> made;
  for (const int64_t rank : {0, 1}) {
    made.push_back(
        std::async(std::launch::async, [&, rank] { return Group::create(place(rank, 2), store.client(kGeneration)); }));
  }
  const auto first = made[0].get(), second = made[1].get();
  auto waiting =
      std::async(std::launch::async, [&] { return testing::message_of<CollectiveError>([&] { first->duplicate(); }); });
  ASSERT_TRUE(watcher->wait({"duplicate_1/arrived/0"}, std::chrono::seconds(60)).ok());
  first->abort();
  EXPECT_THAT(waiting.get(), HasSubstr("told to stop"));
  EXPECT_THAT(testing::message_of<CollectiveError>([&] { second->duplicate(); }), HasSubstr("told to stop"));
}

int64_t count_entries(const char* folder) {
  const std::filesystem::directory_iterator entries(folder);
  return std::distance(begin(entries), end(entries));
}

// What group.h says that a group costs.
class GroupCost : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(EachBackend, GroupCost, Values("gloo", "paceline"));

TEST_P(GroupCost, ADuplicateGivesBackWhatItCosts) {
  GroupOptions options;
  options.backend = GetParam();
  const auto groups = over_key_value_as(options, 3);
  const int64_t descriptors = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<Group>> duplicates(3);
    testing::run_ranks(groups, [&](const auto& group) { duplicates[group->rank()] = group->duplicate(); });
    EXPECT_LE(count_entries("/proc/self/task") - threads, 3 * 3);
    EXPECT_LE(count_entries("/proc/self/fd") - descriptors, 3 * (2 + 6));
    testing::run_ranks(groups, [&](const auto& group) { duplicates[group->rank()].reset(); });
    EXPECT_LE(count_entries("/proc/self/fd"), descriptors);  // groups of other tests may end meanwhile
  }
}

TEST(Group, NamesTheRanksThatNeverCome) {
  rpc::MemoryKeyValueStore store;
  GroupOptions options = place(1, 4);
  options.timeout = std::chrono::milliseconds(50);
  EXPECT_THAT(testing::message_of<CollectiveError>([&] { Group::create(options, store.client(kGeneration)); }),
              ::testing::AllOf(HasSubstr("rank 1 of 4"), HasSubstr("missing ranks=0, 2, 3"),
                               HasSubstr("TorchConfig.timeout_s")));
}

TEST(Group, ACollectiveTimesOut) {
  rpc::MemoryKeyValueStore store;
  auto other = std::async(std::launch::async, [&] { return Group::create(place(1, 2), store.client(kGeneration)); });
  GroupOptions options = place(0, 2);
  options.timeout = std::chrono::milliseconds(200);
  auto group = Group::create(options, store.client(kGeneration));
  auto peer = other.get();  // alive, but does not come
  torch::Tensor tensor = torch::ones({2});
  EXPECT_THAT(testing::message_of<CollectiveError>([&] { group->all_reduce(tensor, ReduceOp::sum); }),
              ::testing::AllOf(HasSubstr("failed on rank 0 of 2 for want of rank 1"), HasSubstr("in time"),
                               HasSubstr("logs of the other ranks"), HasSubstr("TorchConfig.timeout_s")));
}

TEST(Group, RefusesABackendThatIsNotThere) {
  GroupOptions options = place(0, 2);
  options.backend = "mpi";
  EXPECT_THAT(testing::message_of<CollectiveError>([&] { Group::create(options, nullptr); }),
              ::testing::AllOf(HasSubstr("\"mpi\""), HasSubstr("\"gloo\"")));
}

// Outside a Group too, where exceptions come as Gloo throws them.
TEST(Group, KnowsWhichFailuresAreConsequences) {
  const auto groups = over_gloo(2);
  groups[1]->abort();
  torch::Tensor tensor = torch::ones({1});
  try {
    std::vector<torch::Tensor> tensors{tensor};
    groups[0]->process_group()->getBackend(torch::kCPU)->recv(tensors, 1, 0)->wait();
    FAIL() << "its peer is gone";
  } catch (const std::exception& failure) {
    EXPECT_EQ(dynamic_cast<const CollectiveError*>(&failure), nullptr);
    EXPECT_TRUE(is_collateral(failure)) << failure.what();
  }
  EXPECT_TRUE(is_collateral(CollectiveError("", CollectiveCause::other_rank)));
  EXPECT_FALSE(is_collateral(CollectiveError("")));
  EXPECT_FALSE(is_collateral(std::runtime_error("the user's own")));
}

TEST(Backends, EveryDeviceHasItsDefaultAndEveryRowIsFound) {
  EXPECT_EQ(default_backend(torch::kCPU).name, "paceline");
  EXPECT_EQ(default_backend(torch::kCUDA, /*shared=*/true).name, "gloo");
  EXPECT_EQ(default_backend(torch::kCUDA).name, "nccl");
  for (const char* name : {"nccl", "paceline", "gloo"}) {
    const Backend& backend = *find_backend(name);
    EXPECT_EQ(backend.name, name);
    EXPECT_FALSE(backend.devices.empty()) << backend.name;
    EXPECT_EQ(backend.is_built_in(), backend.connect != nullptr) << backend.name;
  }
  EXPECT_EQ(find_backend("mpi"), nullptr);
}

TEST(Backends, OfAListTheOneForTheDeviceIsTaken) {
  EXPECT_EQ(backend_for("gloo", torch::kCUDA), "gloo");
  EXPECT_EQ(backend_for("cpu:gloo,cuda:nccl", torch::kCPU), "gloo");
  EXPECT_EQ(backend_for("cpu:gloo,cuda:nccl", torch::kCUDA), "nccl");
  EXPECT_EQ(backend_for("cuda:nccl", torch::kCPU), "");
}

TEST(Group, AWorldOfOneNeedsNoStore) {
  auto group = Group::create(place(0, 1), nullptr);
  EXPECT_EQ(group->size(), 1);
  EXPECT_EQ(group->process_group(), nullptr);
}

// Addresses that this process's sockets listen on or are connected from.
std::vector<std::string> own_socket_addresses() {
  std::vector<std::string> addresses;
  DIR* folder = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(folder)) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    if (::getsockname(static_cast<int>(std::strtol(entry->d_name, nullptr, 10)), reinterpret_cast<sockaddr*>(&address),
                      &size) != 0)
      continue;
    char text[INET6_ADDRSTRLEN] = "";
    if (address.ss_family == AF_INET) {
      ::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(&address)->sin_addr, text, sizeof(text));
      addresses.emplace_back(text);
    } else if (address.ss_family == AF_INET6) {
      ::inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr, text, sizeof(text));
      addresses.emplace_back(text);
    }
  }
  ::closedir(folder);
  return addresses;
}

TEST(Group, SomeRanksMaySplitOff) {
  testing::run_ranks(over_key_value(3), [](const std::shared_ptr<Group>& group) {
    if (group->rank() == 1) return;
    const auto pair = group->process_group()->splitGroup({0, 2}, {}, {}, {}, {});
    std::vector<torch::Tensor> value{torch::full({1}, static_cast<double>(group->rank() + 1))};
    pair->allreduce(value)->wait();
    EXPECT_EQ(value[0].item<double>(), 4);
    EXPECT_EQ(pair->getRank(), group->rank() / 2);
  });
}

TEST(Group, NothingListensBeyondLoopback) {
  auto groups = over_gloo(3);
  const auto addresses = own_socket_addresses();
  EXPECT_FALSE(addresses.empty());
  EXPECT_THAT(addresses, ::testing::Each("127.0.0.1"));
}

TEST(Group, GlooServesGpusWhereItIsAskedTo) {
  rpc::MemoryKeyValueStore store;
  const auto create = [&](int64_t rank) {
    GroupOptions options = place(rank, 2);
    options.backend = "gloo";
    options.device = torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(rank));
    return Group::create(options, store.client(kGeneration));
  };
  auto other = std::async(std::launch::async, create, 1);
  const auto group = create(0);
  EXPECT_EQ(group->process_group()->getBackend(torch::kCUDA)->getBackendName(), "gloo");
  EXPECT_EQ(other.get()->backend(), "gloo");
}

TEST(Group, JoinsTorchrunsWorld) {
  // A free port of the moment; the store's listener takes it over at once.
  const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(probe, reinterpret_cast<sockaddr*>(&address), size), 0);
  ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(probe);
  ::setenv("MASTER_ADDR", "localhost", 1);
  ::setenv("MASTER_PORT", std::to_string(ntohs(address.sin_port)).c_str(), 1);
  ::setenv("WORLD_SIZE", "2", 1);

  const pid_t child = ::fork();
  ::setenv("RANK", child == 0 ? "1" : "0", 1);
  GroupOptions options;
  options.timeout = std::chrono::seconds(60);
  torch::Tensor sum = torch::ones({1});
  if (child == 0) {
    try {
      Group::from_torchrun_environment(options)->all_reduce(sum, ReduceOp::sum);
    } catch (...) {
      ::_exit(2);
    }
    ::_exit(sum.item<double>() == 2 ? 0 : 1);
  }
  auto group = Group::from_torchrun_environment(options);
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 2);
  EXPECT_THAT(own_socket_addresses(), ::testing::Each(::testing::AnyOf("127.0.0.1", "::ffff:127.0.0.1")));
  group->all_reduce(sum, ReduceOp::sum);
  EXPECT_EQ(sum.item<double>(), 2);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Group, JoinsTorchrunsWorldAgain) {
  const TorchrunAgent agent(2);
  GroupOptions options;
  options.timeout = std::chrono::seconds(60);
  const auto join_twice = [&] {
    double total = 0;
    for (int time = 0; time < 2; ++time) {
      torch::Tensor sum = torch::ones({1});
      Group::from_torchrun_environment(options)->all_reduce(sum, ReduceOp::sum);
      total += sum.item<double>();
    }
    return total;
  };
  const pid_t child = ::fork();
  ::setenv("RANK", child == 0 ? "1" : "0", 1);
  if (child == 0) {
    try {
      ::_exit(join_twice() == 4 ? 0 : 1);
    } catch (...) {
      ::_exit(2);
    }
  }
  EXPECT_EQ(join_twice(), 4);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Group, SaysWhichTorchrunVariableIsMissing) {
  ::unsetenv("RANK");
  EXPECT_THAT(testing::message_of<CollectiveError>([] { Group::from_torchrun_environment({}); }), HasSubstr("RANK"));
}

}  // namespace
}  // namespace paceline::comm
