#include "paceline/core/peer_lost.h"

#include <gmock/gmock.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PeerLost, ItsTextSaysWhoIsMissingAndCanBeReadAgain) {
  EXPECT_EQ(for_want_of({}), "");
  EXPECT_EQ(for_want_of({2}), " for want of rank 2");
  EXPECT_EQ(for_want_of({2, 14}), " for want of ranks 2, 14");
  EXPECT_THAT(ranks_wanted_in("all_reduce failed on rank 0 of 3" + for_want_of({2}) + ": it has ended"),
              ElementsAre(2));
  EXPECT_THAT(ranks_wanted_in("a collective failed" + for_want_of({2, 14}) + ": 3 times"), ElementsAre(2, 14));
  EXPECT_THAT(ranks_wanted_in("x" + for_want_of({1}) + "; the first failure: y" + for_want_of({0})), ElementsAre(1));
  for (const char* text : {"", "all_reduce failed", "x for want of ", "x for want of rank", "x for want of ranks, 3"}) {
    EXPECT_THAT(ranks_wanted_in(text), IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace paceline
