#include "paceline/comm/nodes/leaders_internal.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <nlohmann/json.hpp>

#include "paceline/collective/ranks_fixture.h"
#include "paceline/core/peer_lost.h"

namespace paceline::comm {
namespace {

using collective::Fingerprint;
using collective::Kind;
using collective::MemoryBulletin;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Steady = std::chrono::steady_clock;
using All = std::vector<std::shared_ptr<Leaders>>;

const Fingerprint kSum{.kind = Kind::all_reduce, .elements = 3};
const Fingerprint kCopy{.kind = Kind::broadcast, .root = 2, .elements = 3};

Steady::time_point soon() {
  return Steady::now() + std::chrono::minutes(1);
}

// Ranks 0, 2, 4, …
All connected(size_t count) {
  MemoryBulletin words;
  std::vector<int64_t> ranks;
  for (size_t node = 0; node < count; ++node) ranks.push_back(2 * static_cast<int64_t>(node));
  std::vector<std::future<std::shared_ptr<Leaders>>> futures;
  for (size_t node = 0; node < count; ++node) {
    futures.push_back(std::async(std::launch::async, [&, node] {
      return Leaders::connect(words.bulletin(), node, ranks, "127.0.0.1", soon());
    }));
  }
  All all;
  for (auto& future : futures) all.push_back(future.get());
  return all;
}

// Until `is_so`, which something that the leader hears makes so.
void wait_until(Leaders& leader, const std::function<bool()>& is_so) {
  while (!is_so()) leader.wait(soon());
}

template <class Thrown>
std::string thrown_by(const std::function<void()>& body) {
  try {
    body();
  } catch (const Thrown& thrown) {
    return thrown.what();
  }
  return "nothing";
}

TEST(Leaders, AgreeOnceAllHaveCalled) {
  const All all = connected(3);
  const auto calls = [&](size_t caller, const Fingerprint& call, uint64_t place) {
    all[caller]->announce(call);
    all[caller]->announce_ready(place);
  };
  for (const size_t caller : {0, 1}) calls(caller, kSum, 1);
  EXPECT_FALSE(all[0]->agree(1, kSum, "all_reduce number 1"));
  calls(2, kSum, 1);
  calls(2, kCopy, 2);  // the next
  for (const auto& leader : all) wait_until(*leader, [&] { return leader->agree(1, kSum, "all_reduce number 1"); });
  for (const size_t caller : {0, 1}) calls(caller, kCopy, 2);
  for (const auto& leader : all) wait_until(*leader, [&] { return leader->agree(2, kCopy, "broadcast number 2"); });
}

TEST(Leaders, AreToldWhoCallsWhat) {
  const All all = connected(2);
  all[0]->announce(kSum);
  all[1]->announce(kCopy);
  for (const size_t own : {0, 1}) {
    const std::string told = thrown_by<CollectiveError>(
        [&] { wait_until(*all[own], [&] { return all[own]->agree(1, own == 0 ? kSum : kCopy, "number 1"); }); });
    EXPECT_THAT(told, AllOf(HasSubstr("rank 0 calls all_reduce(sum) of 3 float32"),
                            HasSubstr("rank 2 calls broadcast of 3 float32 (12 B) with root 2")));
  }
}

TEST(Leaders, MissWhoIsGoneOrLate) {
  All all = connected(4);
  all[3].reset();
  all[2]->leave(/*has_aborted=*/true);
  all[0]->announce(kSum);
  wait_until(*all[0], [&] { return all[0]->gone("x") && all[0]->gone("x")->missing.size() == 2; });
  EXPECT_THAT(all[0]->gone("x")->missing, ElementsAre(4, 6));
  EXPECT_THAT(thrown_by<PeerLost>([&] { all[0]->agree(1, kSum, "all_reduce number 1"); }),
              HasSubstr("all_reduce number 1 failed on rank 0 for want of ranks 4, 6: it has aborted"));
}

TEST(Leaders, WhoHasLeftWellHasNotCrashed) {
  All all = connected(4);
  all[1]->leave(/*has_aborted=*/false);
  wait_until(*all[0], [&] { return all[0]->gone("x").has_value(); });
  EXPECT_FALSE(all[0]->crashed("x"));
  all[2]->leave(/*has_aborted=*/true);
  wait_until(*all[0], [&] { return all[0]->crashed("x").has_value(); });
  EXPECT_THAT(all[0]->crashed("x")->missing, ElementsAre(4));
}

// What has been called before counts.
TEST(Leaders, WhoIsGoneAfterItsCallIsNotMissed) {
  All all = connected(2);
  all[1]->announce(kSum);
  all[1]->announce_ready(1);
  all[1].reset();
  wait_until(*all[0], [&] { return all[0]->gone("x").has_value(); });
  EXPECT_TRUE(all[0]->agree(1, kSum, "all_reduce number 1"));
  EXPECT_FALSE(all[0]->gone("x", 1));  // what it has sent may be on its way
}

TEST(Leaders, TellEachOtherWhatHasFailed) {
  const All all = connected(3);
  all[1]->tell({.missing = {3}, .text = "rank 3 is \"gone\""});
  for (const size_t other : {0, 2}) {
    wait_until(*all[other], [&] { return all[other]->told().has_value(); });
    EXPECT_THAT(all[other]->told()->missing, ElementsAre(3));
    EXPECT_EQ(all[other]->told()->text, "rank 3 is \"gone\"");
  }
  EXPECT_FALSE(all[1]->told());
}

TEST(Leaders, WhoIsLateIsNamedByThoseWhoWait) {
  const All all = connected(3);
  all[1]->answer_with([](uint64_t place) { return std::vector<int64_t>(place == 1 ? 1 : 0, 3); });
  all[1]->announce(kSum);
  all[0]->ask(1);
  for (const size_t asked : {1, 2}) all[asked]->wait(soon());
  wait_until(*all[0], [&] { return !all[0]->silent("x"); });
  EXPECT_THAT(all[0]->late(1, {}, "barrier number 3")->missing, ElementsAre(3));
  EXPECT_THAT(all[0]->late(1, {1}, "barrier number 3")->missing, ElementsAre(1, 3));
  all[0]->ask(2);
  all[1]->wait(soon());
  // Nobody waits for anybody: who has not called it is late.
  wait_until(*all[0], [&] { return all[0]->late(1, {}, "x")->missing == std::vector<int64_t>{4}; });
}

TEST(Leaders, WhoDoesNotAnswerIsNamed) {
  All all = connected(4);
  all[3].reset();
  all[0]->ask(1);
  all[1]->wait(soon());
  wait_until(*all[0],
             [&] { return all[0]->silent("x") && all[0]->silent("x")->missing.size() == 1 && all[0]->gone("x"); });
  EXPECT_THAT(all[0]->silent("barrier number 3")->missing, ElementsAre(4));
  EXPECT_THAT(all[0]->silent("barrier number 3")->text, HasSubstr("for want of rank 4: its process does not answer"));
  all[2]->wait(soon());
  wait_until(*all[0], [&] { return !all[0]->silent("x"); });
}

// Before the others, and saying nothing, or something else.
TEST(Leaders, StrangersHoldNobodyUp) {
  MemoryBulletin words;
  auto first = std::async(std::launch::async,
                          [&] { return Leaders::connect(words.bulletin(), 0, {0, 2}, "127.0.0.1", soon()); });
  const auto at = nlohmann::json::parse(words.bulletin().get("0", soon()));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(at.at("port").get<uint16_t>()), .sin_addr = {}};
  ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  const Descriptor silent(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      loud(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (const Descriptor* stranger : {&silent, &loud}) {
    ASSERT_EQ(::connect(stranger->get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  const std::string request = "GET / HTTP/1.1\r\nHost: somebody.example\r\n\r\n";
  ASSERT_EQ(::send(loud.get(), request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  const auto second = Leaders::connect(words.bulletin(), 1, {0, 2}, "127.0.0.1", soon());
  const auto leader = first.get();
  leader->announce(kSum);
  second->announce(kSum);
  second->announce_ready(1);
  wait_until(*leader, [&] { return leader->agree(1, kSum, "all_reduce number 1"); });
}

// At once, and without a word against the others. In a process of its own, whose limits are its own.
TEST(Leaders, ALackOfDescriptorsIsNoFaultOfTheOthers) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(50);
    MemoryBulletin words;
    collective::Bulletin bulletin = words.bulletin();
    Descriptor caller;
    bulletin.set = [&](const std::string&, const std::string& value) {
      const auto port = nlohmann::json::parse(value).at("port").get<uint16_t>();
      sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}};
      ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
      caller = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      ::connect(caller.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
      const Descriptor lowest(::dup(STDERR_FILENO));
      const rlimit limit{static_cast<rlim_t>(lowest.get()), static_cast<rlim_t>(lowest.get())};
      ::setrlimit(RLIMIT_NOFILE, &limit);
    };
    try {
      Leaders::connect(bulletin, 0, {0, 2}, "127.0.0.1", Steady::now() + std::chrono::hours(1));
    } catch (const CollectiveError& error) {
      const bool is_told = std::string(error.what()).find("ulimit -n") != std::string::npos;
      ::_exit(is_told && error.cause() == CollectiveCause::this_rank ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Leaders, WhoDoesNotConnectIsNamed) {
  MemoryBulletin words;
  EXPECT_THAT(thrown_by<CollectiveError>([&] {
                Leaders::connect(words.bulletin(), 0, {0, 2, 4}, "127.0.0.1",
                                 Steady::now() + std::chrono::milliseconds(20));
              }),
              HasSubstr("ranks 2, 4 have not come in time"));
}

TEST(FirstFailure, IsCutToWhatThereIsRoomFor) {
  const FirstFailure long_one{.missing = {1, 2}, .text = std::string(5000, '"')};
  const std::string word = long_one.encode(1000);
  EXPECT_LE(word.size(), 1000u);
  EXPECT_THAT(FirstFailure::decode(word).ValueOrDie().missing, ElementsAre(1, 2));
  const FirstFailure of_many{.missing = std::vector<int64_t>(500, 123), .text = "gone"};
  EXPECT_EQ(FirstFailure::decode(of_many.encode(100)).ValueOrDie().missing.front(), 123);
  EXPECT_FALSE(FirstFailure::decode("{\"missing\": 3}").ok());
  EXPECT_FALSE(FirstFailure::decode("gibberish").ok());
}

}  // namespace
}  // namespace paceline::comm
