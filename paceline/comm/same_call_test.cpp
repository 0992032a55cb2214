#include "paceline/comm/same_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/error.h"
#include "paceline/testing/ranks.h"

namespace paceline::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::run_ranks;

TEST(SameCall, LetsEqualCallsPass) {
  run_ranks(Group::in_process(3), [](const std::shared_ptr<Group>& group) {
    check_same_call(*group, "all_reduce (sum)", torch::ones({2, 3}));
    check_same_call(*group, "broadcast from rank 1", torch::ones({}, torch::kInt64));
    check_same_call(*group, "all_gather", torch::ones(std::vector<int64_t>(100, 1)));  // longer than what is compared
  });
  check_same_call(*Group::in_process(1)[0], "all_reduce (sum)", torch::ones({2}));
}

TEST(SameCall, NamesWhatDiffersOnEveryRankAndLeavesTheGroupUsable) {
  run_ranks(Group::in_process(3), [](const std::shared_ptr<Group>& group) {
    const bool last = group->rank() == 2;
    const auto message = [&](const std::string& operation, const torch::Tensor& tensor) {
      return message_of<CollectiveError>([&] { check_same_call(*group, operation, tensor); });
    };
    EXPECT_THAT(message("all_reduce (sum)", torch::ones({last ? 3 : 2})),
                AllOf(HasSubstr("all_reduce (sum) of Float [2] on rank 0, 1"), HasSubstr("Float [3] on rank 2")));
    EXPECT_THAT(message("all_gather", torch::ones({2}, last ? torch::kInt32 : torch::kFloat32)),
                AllOf(HasSubstr("Float [2]"), HasSubstr("Int [2] on rank 2")));
    EXPECT_THAT(message(last ? "broadcast from rank 0" : "all_gather", torch::ones({2})),
                AllOf(HasSubstr("all_gather of"), HasSubstr("broadcast from rank 0 of Float [2] on rank 2")));
    torch::Tensor one = torch::ones({1});
    group->all_reduce(one, ReduceOp::sum);
    EXPECT_EQ(one.item<double>(), 3);
  });
}

}  // namespace
}  // namespace paceline::comm
