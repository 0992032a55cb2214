#include "paceline/collective/mail.h"

#include <gmock/gmock.h>

#include <future>
#include <random>

#include "paceline/collective/ranks_fixture.h"
#include "paceline/core/peer_lost.h"

namespace paceline::collective {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Bytes = std::vector<std::byte>;

Bytes bytes_of(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// A letter whose end is a future, which holds the other rank.
std::pair<std::shared_ptr<Letter>, std::future<int>> letter_of(Bytes& bytes, int rank, int tag,
                                                               std::chrono::milliseconds patience = kTestTimeout) {
  auto letter = std::make_shared<Letter>();
  *letter = {.rank = rank,
             .tag = tag,
             .memory = bytes.data(),
             .bytes = bytes.size(),
             .deadline = std::chrono::steady_clock::now() + patience};
  auto end = std::make_shared<std::promise<int>>();
  letter->on_end = [end, letter = letter.get()](const std::exception_ptr& failure) {
    failure ? end->set_exception(failure) : end->set_value(letter->rank);
  };
  return {letter, end->get_future()};
}

std::future<int> send(SharedGroup& group, Bytes& bytes, int to, int tag = 0) {
  auto [letter, end] = letter_of(bytes, to, tag);
  group.mail().send(letter);
  return std::move(end);
}

std::future<int> receive(SharedGroup& group, Bytes& bytes, int from, int tag = 0) {
  auto [letter, end] = letter_of(bytes, from, tag);
  group.mail().receive(letter);
  return std::move(end);
}

void meet(SharedGroup& group) {
  group.wait(group.start({.kind = Kind::barrier, .timeout = kTestTimeout}));
}

TEST(Mail, ComesWholeWhateverItsSize) {
  on_threads(2, [](SharedGroup& group) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, kMailBytes - 16, kMailBytes, 3 * kMailBytes + 5}) {
      Bytes own = bytes_of(static_cast<uint64_t>(group.rank()), size), other(size);
      // Both send first: nobody waits for the other to receive.
      auto sent = send(group, own, 1 - group.rank());
      EXPECT_EQ(receive(group, other, 1 - group.rank()).get(), 1 - group.rank());
      sent.get();
      ASSERT_EQ(other, bytes_of(static_cast<uint64_t>(1 - group.rank()), size)) << size;
    }
    meet(group);
  });
}

TEST(Mail, OfEachTagComesInOrderInWhateverOrderTheTagsAreAskedFor) {
  on_threads(2, [](SharedGroup& group) {
    constexpr int kTags = 3, kEach = 20;
    std::vector<Bytes> messages;
    std::vector<std::future<int>> ends;
    messages.reserve(kTags * kEach);
    if (group.rank() == 0) {
      for (int i = 0; i < kTags * kEach; ++i) {
        messages.push_back(bytes_of(static_cast<uint64_t>(i), i % 7 == 0 ? 300'000 : 100));
        ends.push_back(send(group, messages.back(), 1, i % kTags));
      }
    } else {
      for (int tag = kTags - 1; tag >= 0; --tag) {
        for (int i = tag; i < kTags * kEach; i += kTags) {
          Bytes got(i % 7 == 0 ? 300'000 : 100);
          receive(group, got, 0, tag).get();
          ASSERT_EQ(got, bytes_of(static_cast<uint64_t>(i), got.size())) << i;
        }
      }
    }
    for (auto& end : ends) end.get();
    meet(group);
  });
}

TEST(Mail, IsTakenFromWhoeverSends) {
  on_threads(3, [](SharedGroup& group) {
    Bytes bytes(8);
    if (group.rank() > 0) {
      bytes[0] = static_cast<std::byte>(group.rank());
      send(group, bytes, 0).get();
    } else {
      for (int i = 0; i < 2; ++i) {
        const int from = receive(group, bytes, -1).get();
        EXPECT_EQ(static_cast<int>(bytes[0]), from);
      }
    }
    meet(group);
  });
}

TEST(Mail, ASizeThatDiffersIsRefusedAndTheNextMessageIsRight) {
  on_threads(2, [](SharedGroup& group) {
    Bytes bytes = bytes_of(1, 16);
    if (group.rank() == 0) {
      send(group, bytes, 1).get();
      send(group, bytes, 1).get();
    } else {
      Bytes small(8), right(16);
      try {
        receive(group, small, 0).get();
        ADD_FAILURE();
      } catch (const CollectiveError& error) {
        EXPECT_THAT(error.what(), HasSubstr("rank 0 has sent 16 bytes with the tag 0 to rank 1, which wants 8"));
      }
      receive(group, right, 0).get();
      EXPECT_EQ(right, bytes);
    }
    meet(group);
  });
}

TEST(Mail, WhoDoesNotComeOrLeavesIsNamed) {
  on_threads(2, [](SharedGroup& group) {
    if (group.rank() == 1) return meet(group);
    Bytes bytes(8);
    auto [letter, end] = letter_of(bytes, 1, 3, std::chrono::milliseconds(30));
    group.mail().receive(letter);
    try {
      end.get();
      ADD_FAILURE();
    } catch (const PeerLost& lost) {
      EXPECT_THAT(lost.ranks(), ElementsAre(1));
      EXPECT_THAT(lost.what(), AllOf(HasSubstr("receiving from rank 1 (tag 3, 8 bytes) failed on rank 0"),
                                     HasSubstr("has not come in time")));
    }
    meet(group);
  });
  on_threads(2, [](SharedGroup& group) {
    if (group.rank() == 1) return;
    Bytes bytes(8);
    EXPECT_THROW(receive(group, bytes, 1).get(), PeerLost);
  });
}

// Not the process, which could not say who has sent it.
TEST(Mail, ThatNobodyAwaitsAndThatDoesNotFitIsRefusedWithBothNumbers) {
  on_threads(2, [](SharedGroup& group) {
    if (group.rank() == 0) {
      Bytes part(kMailBytes);  // of which no more is read before something is taken
      auto [letter, end] = letter_of(part, 1, 5);
      letter->bytes = uint64_t{1} << 50;
      group.mail().send(letter);
      EXPECT_THROW(end.get(), PeerLost);
      return;
    }
    Bytes bytes(8);
    try {
      receive(group, bytes, 0, 6).get();
      ADD_FAILURE();
    } catch (const CollectiveError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("a message from rank 0 (tag 5) does not fit on rank 1"),
                                      HasSubstr("wanted 1.0 PiB, got ")));
    }
  });
}

TEST(Mail, AnAbortEndsIt) {
  on_threads(2, [](SharedGroup& group) {
    Bytes bytes(8);
    auto end = receive(group, bytes, 1 - group.rank());
    if (group.rank() == 0) group.abort();
    EXPECT_THROW(end.get(), CollectiveError);
  });
}

}  // namespace
}  // namespace paceline::collective
