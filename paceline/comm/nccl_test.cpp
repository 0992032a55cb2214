// NCCL with one rank on a GPU: what a group of several does with each, from its beginning to an abort.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

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
    options.progress = &progress_;
    group_ = make_c10d_group(options, c10::make_intrusive<c10d::HashStore>(), kLoopback);
  }

  /// Of the group's collectives on the GPU, after the watchdog has seen all end.
  std::vector<CollectiveRecord> records_on_gpu() const {
    group_->process_group()->getBackend(torch::kCUDA)->waitForPendingWorks();
    std::vector<CollectiveRecord> records = reader_.collectives();
    std::erase_if(records, [](const CollectiveRecord& record) { return !record.is_on_device; });
    return records;
  }

  const torch::Device device_{torch::kCUDA, 0};
  const SystemClock clock_;
  Progress progress_ = Progress::create(clock_).ValueOrDie();
  const ProgressReader reader_ =
      ProgressReader::open(progress_.memory().descriptor().duplicate().ValueOrDie()).ValueOrDie();
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

TEST_F(Nccl, CollectivesAreInTheLedgerWithTheirTimeOnTheGpu) {
  torch::Tensor values = torch::ones({1 << 20}, device_);
  for (int i = 0; i < 3; ++i) group_->all_reduce(values, ReduceOp::sum);
  group_->all_gather(values);
  const std::vector<CollectiveRecord> records = records_on_gpu();
  ASSERT_GE(records.size(), 4u);
  const CollectiveCall reduced{Collective::all_reduce, ElementType::float32, 4 << 20};
  EXPECT_EQ(std::ranges::count(records, reduced, &CollectiveRecord::call), 3);
  for (const CollectiveRecord& record : records) {
    EXPECT_TRUE(record.has_ended());
    EXPECT_FALSE(record.has_failed);
    EXPECT_LE(record.called_ns, record.start_ns());
    EXPECT_LT(record.end_ns - record.start_ns(), Duration(std::chrono::milliseconds(50)).count())
        << "until the watchdog looked, not on the GPU";
  }
  EXPECT_TRUE(std::ranges::all_of(reader_.read(clock_.monotonic()).groups,
                                  [](const GroupReading& group) { return group.done == group.begun; }));
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
