#include "paceline/parallel/ddp/gradients.h"

#include <gtest/gtest.h>

#include "paceline/parallel/ddp/data_parallel.h"
#include "paceline/testing/ranks.h"

namespace paceline::parallel {
namespace {

const auto kChannelsLast = torch::MemoryFormat::ChannelsLast;

TEST(WithStridesOf, TakesTheParametersWhereTheyMeanNothing) {
  const torch::Tensor parameter = torch::zeros({4, 3, 1, 1});
  const torch::Tensor gradient = torch::randn({4, 3, 1, 1}).as_strided({4, 3, 1, 1}, {3, 1, 3, 3});
  const torch::Tensor got = with_strides_of(parameter, gradient);
  EXPECT_EQ(got.strides(), parameter.strides());
  EXPECT_EQ(got.data_ptr(), gradient.data_ptr());
  EXPECT_TRUE(torch::equal(got, gradient));
}

TEST(WithStridesOf, KeepsThePlaceWithinALargerStorage) {
  const torch::Tensor parameter = torch::zeros({1, 3});
  const torch::Tensor gradient = torch::arange(12.0).as_strided({1, 3}, {1, 1}, /*storage_offset=*/6);
  EXPECT_TRUE(torch::equal(with_strides_of(parameter, gradient), torch::tensor({{6.0, 7.0, 8.0}})));
}

TEST(WithStridesOf, LeavesOthersAsTheyAre) {
  const torch::Tensor parameter = torch::zeros({4, 3, 2, 2});
  for (const torch::Tensor& gradient :
       {torch::Tensor(), torch::randn({4, 3, 2, 2}), torch::randn({4, 3, 2, 2}).contiguous(kChannelsLast),
        torch::randn({4, 3, 2, 2}).to_sparse(), torch::randn({1}).expand({4, 3, 2, 2}), torch::randn({4, 3})}) {
    EXPECT_TRUE(with_strides_of(parameter, gradient).is_same(gradient));
  }
}

TEST(DataParallelStrides, GradientsOfAChannelsLastConvolutionHaveTheParametersStrides) {
  testing::run_ranks(comm::Group::in_process(2), [](const std::shared_ptr<comm::Group>& group) {
    torch::nn::Conv2d model(torch::nn::Conv2dOptions(8, 4, 1));
    const auto attached = DataParallel::attach(model.ptr(), group, {}, nullptr);
    model->forward(torch::randn({2, 8, 5, 5}).contiguous(kChannelsLast)).sum().backward();
    EXPECT_EQ(model->weight.grad().strides(), model->weight.strides());
  });
}

}  // namespace
}  // namespace paceline::parallel
