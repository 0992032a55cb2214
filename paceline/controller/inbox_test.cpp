#include "paceline/controller/inbox.h"

#include <gmock/gmock.h>

#include "paceline/rpc/messages.h"

namespace paceline::controller {
namespace {

using ::testing::SizeIs;

FromAgent output(int lines, size_t length) {
  return {0, rpc::pack(rpc::Output{.lines = rpc::Strings(lines, std::string(length, 'x'))})};
}

TEST(Inbox, GivesWhatCameInItsOrder) {
  Inbox inbox;
  inbox.push(AgentGone{.agent = 3});
  inbox.push(output(1, 10));
  inbox.push(AgentGone{.agent = 4});
  const auto taken = inbox.take();
  ASSERT_THAT(taken, SizeIs(3));
  EXPECT_EQ(std::get<AgentGone>(taken[0]).agent, 3u);
  EXPECT_EQ(std::get<FromAgent>(taken[1]).envelope.type, rpc::Output::kType);
  EXPECT_EQ(std::get<AgentGone>(taken[2]).agent, 4u);
  EXPECT_THAT(inbox.take(), SizeIs(0));
}

TEST(Inbox, OutputThatNobodyTakesIsCountedInsteadOfKept) {
  Inbox inbox;
  for (int i = 0; i < 20; ++i) inbox.push(output(4, Inbox::kMostOutputBytes / 40));
  inbox.push(AgentGone{});
  const auto taken = inbox.take();
  ASSERT_THAT(taken, SizeIs(9 + 1 + 1)) << "nine tenths of what may wait, the agent's end, and the count";
  EXPECT_TRUE(std::holds_alternative<AgentGone>(taken[9]));
  EXPECT_EQ(std::get<OutputLeftOut>(taken[10]).lines, 4 * (20 - 9));

  inbox.push(output(1, 2 * Inbox::kMostOutputBytes));  // alone it is let in, whatever its size
  inbox.push(output(1, 1));
  const auto later = inbox.take();
  ASSERT_THAT(later, SizeIs(2));
  EXPECT_EQ(std::get<OutputLeftOut>(later[1]).lines, 1);
}

TEST(Inbox, OutputWhoseWritersWaitIsNeverLeftOut) {
  Inbox inbox;
  for (int i = 0; i < 3; ++i) {
    rpc::Output large{.lines = {std::string(Inbox::kMostOutputBytes, 'x')}, .waits = true};
    inbox.push(FromAgent{0, rpc::pack(large)});
  }
  EXPECT_THAT(inbox.take(), SizeIs(3));
}

}  // namespace
}  // namespace paceline::controller
