// NCCL with one rank on a GPU: what a group of several does with each, from its beginning to an abort.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "paceline/comm/group_internal.h"
#include "paceline/comm/reducer.h"
#include "paceline/core/error.h"
#include "paceline/testing/missing_gpu.h"
#include "paceline/testing/ranks.h"

namespace paceline::comm {
namespace {

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = testing::missing_gpu(); !reason.empty()) GTEST_SKIP() << reason;
    GroupOptions options;
    options.backend = "nccl";
    options.device = device_;
    options.timeout = std::chrono::minutes(1);
    group_ = make_c10d_group(options, c10::make_intrusive<c10d::HashStore>(), kLoopback);
  }

  const torch::Device device_{torch::kCUDA, 0};
  std::shared_ptr<Group> group_;
};

TEST_F(Nccl, CollectivesOfOneRankGiveWhatItHas) {
  const torch::Tensor values = torch::arange(6, torch::dtype(torch::kFloat).device(device_)).view({2, 3});
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
    torch::Tensor reduced = values.clone();
    group_->all_reduce(reduced, op);
    EXPECT_TRUE(torch::equal(reduced, values));
  }
  torch::Tensor transposed = values.clone().t();
  group_->broadcast(transposed, 0);
  EXPECT_TRUE(torch::equal(transposed, values.t()));
  group_->broadcast_coalesced({transposed, torch::ones({3}, torch::dtype(torch::kHalf).device(device_))}, 0);
  EXPECT_THAT(group_->all_gather(values), ::testing::SizeIs(1));
  EXPECT_TRUE(torch::equal(group_->all_gather(values).front(), values));
}

TEST_F(Nccl, WhatDescribesTheWorkTravelsOnTheCpu) {
  EXPECT_THAT(all_gather_text(*group_, "weights"), ::testing::ElementsAre("weights"));
  group_->barrier();
}

TEST_F(Nccl, AveragesTheGradientsOfABackward) {
  for (const Compression compression : {Compression::none, Compression::bf16, Compression::fp16}) {
    std::vector<torch::Tensor> parameters = {torch::zeros({100}, torch::device(device_).requires_grad(true)),
                                             torch::zeros({3, 4}, torch::device(device_).requires_grad(true))};
    const auto reducer =
        GradientReducer::create(group_, parameters, {"a", "b"}, {false, false}, {.compression = compression});
    reducer->begin_backward();
    ((parameters[0].sum() + parameters[1].sum()) * 2).backward();
    for (const torch::Tensor& parameter : parameters) {
      EXPECT_TRUE(torch::equal(parameter.grad(), torch::full_like(parameter, 2)));
    }
  }
}

TEST_F(Nccl, NothingIsSentAfterAnAbort) {
  torch::Tensor values = torch::ones({3}, device_);
  group_->all_reduce(values, ReduceOp::sum);
  group_->abort();
  EXPECT_THAT(testing::message_of<CollectiveError>([&] { group_->all_reduce(values, ReduceOp::sum); }),
              ::testing::HasSubstr("told to stop"));
}

}  // namespace
}  // namespace paceline::comm
