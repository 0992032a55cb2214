#include "paceline/checkpoint/diff.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "paceline/checkpoint/tensors_fixture.h"

namespace paceline::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(Diff, TellsWhatDiffers) {
  const testing::TemporaryFolder folder;
  const auto first = publish(folder / "a", {floats("same", {1, 2}), floats("moved", {1, 2, 4}), floats("removed", {1}),
                                            floats("resized", {1, 2}), floats("little", {1, 1})});
  const auto second = publish(folder / "b", {floats("same", {1, 2}), floats("moved", {1, 5, 4}), floats("added", {1}),
                                             floats("resized", {1, 2, 3}), floats("little", {1, 1.5f})});
  const CheckpointDiff found = diff(first, second).ValueOrDie();
  EXPECT_THAT(found.only_first, ElementsAre("removed"));
  EXPECT_THAT(found.only_second, ElementsAre("added"));
  EXPECT_THAT(found.changed, ElementsAre(TensorChange{"resized", "F32 [2]", "F32 [3]"}));
  EXPECT_THAT(found.differences,
              ElementsAre(TensorDifference{"moved", 3, 0.75, 1, 3}, TensorDifference{"little", 0.5, 0.5, 1, 2}))
      << "the largest first";
  EXPECT_EQ(found.equal, 1);
  EXPECT_FALSE(is_equal(found));
  EXPECT_TRUE(is_equal(diff(first, first).ValueOrDie()));
}

TEST(Diff, ReadsEveryKindOfNumber) {
  const testing::TemporaryFolder folder;
  const std::vector<uint16_t> half_one = {0x3c00, 0x0001}, half_two = {0x4000, 0x0001};  // 1 and 2, and the least
  const std::vector<uint16_t> brain_one = {0x3f80}, brain_two = {0xc000};                // 1 and -2
  const std::vector<int64_t> integer_one = {5}, integer_two = {-5};
  const auto first = publish(folder / "a", {values("half", "F16", half_one), values("brain", "BF16", brain_one),
                                            values("integer", "I64", integer_one), floats("nan", {NAN, 1})});
  const auto second = publish(folder / "b", {values("half", "F16", half_two), values("brain", "BF16", brain_two),
                                             values("integer", "I64", integer_two), floats("nan", {NAN, NAN})});
  const CheckpointDiff found = diff(first, second).ValueOrDie();
  ASSERT_THAT(found.differences, SizeIs(4));
  EXPECT_EQ(found.differences[0], (TensorDifference{"nan", HUGE_VAL, HUGE_VAL, 1, 2}));
  EXPECT_EQ(found.differences[1], (TensorDifference{"integer", 10, 2, 1, 1}));
  EXPECT_EQ(found.differences[2], (TensorDifference{"brain", 3, 3, 1, 1}));
  EXPECT_EQ(found.differences[3], (TensorDifference{"half", 1, 1, 1, 2}));
}

TEST(Diff, SaysWhatCannotBeRead) {
  const testing::TemporaryFolder folder;
  const auto first = publish(folder / "a", {floats("x", {1})});
  EXPECT_TRUE(diff(first, folder / "none").status().IsIOError());
}

}  // namespace
}  // namespace paceline::checkpoint
