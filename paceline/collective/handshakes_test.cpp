// Meetings whose connections have it hard: many ranks, strangers, and no descriptors left.
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "paceline/collective/meeting.h"
#include "paceline/collective/peers.h"
#include "paceline/collective/ranks_fixture.h"
#include "paceline/core/error.h"
#include "paceline/core/posix/descriptor_limit.h"
#include "paceline/core/posix/socket_pair.h"
#include "paceline/testing/in_fork.h"

namespace paceline::collective {
namespace {

using ::testing::Each;

arrow::Result<std::shared_ptr<Arena>> some_memory() {
  return Arena::create(1 << 20);
}

// --- by hand -----------------------------------------------------------------------------------------------------

Descriptor connected_to(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return {};
  return socket;
}

// A rank's greeting, and its memory.
void introduce(const Descriptor& connection, int32_t rank, const std::string& token, const Arena& memory) {
  std::array<std::byte, sizeof rank + 32> greeting{};
  std::memcpy(greeting.data(), &rank, sizeof rank);
  std::memcpy(greeting.data() + sizeof rank, token.data(), token.size());
  const std::byte one{};
  const int descriptors[] = {memory.memory().descriptor().get()};
  if (!send_some(connection.get(), greeting, {}).ok() ||
      !send_some(connection.get(), std::span(&one, 1), descriptors).ok()) {
    ADD_FAILURE() << "who is introduced has hung up";
  }
}

// --- many --------------------------------------------------------------------------------------------------------

TEST(Handshakes, MoreRanksThanShareMemoryMeet) {
  constexpr int kRanks = 70;
  if (!reserve_descriptors(3 * kRanks * kRanks).ok()) GTEST_SKIP() << "this process may not open enough files";
  MemoryBulletin memory;
  std::vector<std::future<arrow::Result<Meeting>>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(std::async(std::launch::async, [&memory, rank] {
      return meet(memory.bulletin(), rank, kRanks, some_memory(), kTestTimeout);
    }));
  }
  std::vector<size_t> others;
  for (auto& rank : ranks) {
    const auto meeting = rank.get();
    ASSERT_TRUE(meeting.ok()) << meeting.status().ToString();
    ASSERT_EQ(meeting->nodes.size(), 2u);
    others.push_back(meeting->members.size());
  }
  const auto first_of_second_node = others.begin() + 64;
  EXPECT_THAT(std::vector<size_t>(others.begin(), first_of_second_node), Each(63));
  EXPECT_THAT(std::vector<size_t>(first_of_second_node, others.end()), Each(5));
}

// --- strangers ---------------------------------------------------------------------------------------------------

// Two ranks meet although `strangers` come to rank 1, who are given its socket before it listens to anybody.
void meet_among(const std::function<void(const std::string& socket)>& strangers) {
  MemoryBulletin memory;
  Bulletin bulletin = memory.bulletin();
  bulletin.set = [&, set = bulletin.set](const std::string& key, const std::string& value) {
    if (key == "place/1") strangers(nlohmann::json::parse(value).at("socket"));
    set(key, value);
  };
  const auto meet_as = [&](int rank) { return meet(bulletin, rank, 2, some_memory(), std::chrono::seconds(20)); };
  auto first = std::async(std::launch::async, [&] { return meet_as(0); });
  const auto met_by_second = meet_as(1), met_by_first = first.get();
  for (const auto* meeting : {&met_by_first, &met_by_second}) {
    ASSERT_TRUE(meeting->ok()) << meeting->status().ToString();
    EXPECT_EQ((*meeting)->members.size(), 1u);
  }
}

TEST(Handshakes, StrangersThatFillTheQueueHoldNobodyUp) {
  meet_among([](const std::string& socket) {
    while (connected_to(socket)) {  // who has hung up is in the queue still
    }
    EXPECT_EQ(errno, EAGAIN);
  });
}

// One, and more than may stay.
TEST(Handshakes, StrangersThatSayNothingHoldNobodyUp) {
  for (const int count : {1, 100}) {
    std::vector<Descriptor> silent;
    meet_among([&](const std::string& socket) {
      for (int i = 0; i < count; ++i) silent.push_back(connected_to(socket));
    });
  }
}

TEST(Handshakes, WhatStrangersSayIsRefused) {
  std::vector<Descriptor> loud;
  meet_among([&](const std::string& socket) {
    loud.push_back(connected_to(socket));
    const std::string text(100, 'x');
    const std::vector<int> descriptors(kMaxDescriptorsPerCall, STDERR_FILENO);
    EXPECT_TRUE(send_some(loud.back().get(), std::as_bytes(std::span(text)), descriptors).ok());
  });
  pollfd event{loud.back().get(), POLLIN, 0};
  EXPECT_EQ(::poll(&event, 1, 0), 1);  // it has been sent away
}

// --- no descriptors ----------------------------------------------------------------------------------------------

// In a process of its own, whose limits and user are its own. It is ended when it does not end.
int in_a_child(const std::function<bool()>& test) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(50);
    ::_exit(test() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

// This process may open `more` files, and can do nothing about it.
void limit_descriptors(rlim_t more) {
  const Descriptor lowest(::dup(STDERR_FILENO));
  const rlim_t most = static_cast<rlim_t>(lowest.get()) + more;
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

struct Lack {
  const char* when;  ///< rank 1 looks for this
  rlim_t more;
};

// The undefined-behaviour sanitizer, which goes with the other, looks at memory through a pipe.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kDescriptorsMayRunOut = false;
#else
constexpr bool kDescriptorsMayRunOut = true;
#endif

class HandshakesWithoutDescriptors : public ::testing::TestWithParam<Lack> {};

// Long before the deadline, and without a word against rank 0.
TEST_P(HandshakesWithoutDescriptors, EndWithWhatToDo) {
  if (!kDescriptorsMayRunOut) GTEST_SKIP() << "the sanitizer needs descriptors";
  const auto test = [] {
    const auto others = some_memory().ValueOrDie();
    std::map<std::string, std::string> words{{"reached/0", "[1]"}};
    Descriptor caller;
    Bulletin bulletin;
    bulletin.set = [&](const std::string& key, const std::string& value) { words[key] = value; };
    bulletin.get = [&](const std::string& key, Deadline) {
      const auto own = nlohmann::json::parse(words.at("place/1"));
      words.emplace("place/0", own.dump());
      if (key == "reached/0") {
        caller = connected_to(own.at("socket"));
        introduce(caller, 0, own.at("token"), *others);
      }
      if (key == GetParam().when) limit_descriptors(GetParam().more);
      return words.at(key);
    };
    try {
      const auto met = meet(bulletin, 1, 2, some_memory(), std::chrono::hours(1));
      std::fprintf(stderr, "no exception: %s\n", met.status().ToString().c_str());
    } catch (const CollectiveError& error) {
      std::fprintf(stderr, "%s\n", error.what());
      const std::string_view text = error.what();
      return error.cause() == CollectiveCause::this_rank && text.find("ulimit -n") != text.npos &&
             text.starts_with("rank 1 of 2 cannot meet the others: ");
    }
    return false;
  };
  EXPECT_EQ(in_a_child(test), 0);
}

INSTANTIATE_TEST_SUITE_P(All, HandshakesWithoutDescriptors,
                         ::testing::Values(Lack{"place/0", 0}, Lack{"reached/0", 0}, Lack{"reached/0", 1}),
                         [](const auto& info) {
                           return std::string(std::array{"ToBegin", "ToBeCalled", "ForMemory"}[info.index]);
                         });

TEST(Handshakes, RaiseTheSoftLimit) {
  if (!kDescriptorsMayRunOut) GTEST_SKIP() << "the sanitizer needs descriptors";
  if (!paceline::testing::kForksMayStartThreads) GTEST_SKIP() << "forks cannot start threads";
  const auto test = [] {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const Descriptor lowest(::dup(STDERR_FILENO));
    limit.rlim_cur = static_cast<rlim_t>(lowest.get()) + 4;  // two memories, and to look
    ::setrlimit(RLIMIT_NOFILE, &limit);
    meet_among([](const std::string&) {});
    return !::testing::Test::HasFailure();
  };
  EXPECT_EQ(in_a_child(test), 0);
}

// The kernel lets no user have more descriptors under way than a process may open, except root.
TEST(Handshakes, WaitForDescriptorsOfOthersToArrive) {
  if (!paceline::testing::kForksMayStartThreads) GTEST_SKIP() << "forks cannot start threads";
  const auto test = [] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) return false;
    ::prctl(PR_SET_DUMPABLE, 1);  // else its own /proc/self/fd is not its own
    const rlimit limit{64, 64};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    auto way = std::make_optional(make_socket_pair().ValueOrDie());
    const std::byte one{};
    const std::vector<int> many(kMaxDescriptorsPerCall, STDERR_FILENO);
    while (send_some(way->first.get(), std::span(&one, 1), many).ok()) {
    }
    EXPECT_EQ(errno, ETOOMANYREFS);

    const Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sa_family_t unnamed = AF_UNIX;  // the kernel chooses an abstract address
    sockaddr_un address{};
    socklen_t size = sizeof address;
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&unnamed), sizeof unnamed) != 0) return false;
    ::listen(listener.get(), 1);
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
    std::map<std::string, std::string> words{{"attached/1", "[0, 1]"}};
    Bulletin bulletin;
    bulletin.set = [&](const std::string& key, const std::string& value) { words[key] = value; };
    bulletin.get = [&](const std::string& key, Deadline) {
      if (key != "place/1") return words.at(key);
      auto place = nlohmann::json::parse(words.at("place/0"));
      place["socket"] = std::string(address.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1);
      return place.dump();
    };
    const auto others = some_memory().ValueOrDie();
    auto rank_1 = std::async(std::launch::async, [&] {
      const Descriptor connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      std::array<char, 36> greeting{};
      ::recv(connection.get(), greeting.data(), greeting.size(), MSG_WAITALL);
      way.reset();  // no more of them are under way
      std::byte memory{};
      const auto received = receive_some(connection.get(), std::span(&memory, 1));
      introduce(connection, 1, std::string(greeting.data() + 4, 32), *others);
      return received.ok() && received->descriptors.size() == 1;
    });
    const auto meeting = meet(bulletin, 0, 2, some_memory(), kTestTimeout);
    if (!meeting.ok()) std::fprintf(stderr, "%s\n", meeting.status().ToString().c_str());
    return meeting.ok() && meeting->members.size() == 1 && rank_1.get() && !::testing::Test::HasFailure();
  };
  EXPECT_EQ(in_a_child(test), 0);
}

}  // namespace
}  // namespace paceline::collective
