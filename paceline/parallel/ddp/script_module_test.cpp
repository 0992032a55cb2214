#include "paceline/state/script_module.h"

#include <gtest/gtest.h>

#include "paceline/parallel/ddp/data_parallel.h"
#include "paceline/testing/ranks.h"

namespace paceline::parallel {
namespace {

torch::jit::Module script_of_rank(int64_t rank) {
  torch::jit::Module module("module");
  const torch::Tensor weight = torch::full({2, 1}, static_cast<double>(rank)).requires_grad_();
  module.register_parameter("weight", weight, /*is_buffer=*/false);
  module.define("def forward(self, x):\n  return torch.relu(torch.matmul(x, self.weight) + 1)\n");
  return module;
}

TEST(ScriptModule, TrainsDataParallel) {
  testing::run_ranks(comm::Group::in_process(2), [](const std::shared_ptr<comm::Group>& group) {
    torch::jit::Module module = script_of_rank(group->rank());
    const auto view = script_module(module);
    const auto data_parallel = DataParallel::attach(view, group, {}, nullptr);
    const torch::Tensor weight = module.attr("weight").toTensor();
    EXPECT_EQ(weight[0][0].item<double>(), 0) << "rank 0's";
    for (int step = 0; step < 4; ++step) {  // TorchScript compiles what has run a few times
      weight.mutable_grad().reset();
      module.forward({torch::full({1, 2}, group->rank() + 1.0)}).toTensor().sum().backward();
      EXPECT_EQ(weight.grad()[0][0].item<double>(), 1.5);
    }
  });
}

TEST(ScriptModule, IsOneAsLongAsSomebodyHoldsIt) {
  const torch::jit::Module module = script_of_rank(0);
  const auto view = script_module(module);
  EXPECT_EQ(script_module(module), view);
  EXPECT_EQ(view->named_parameters().keys(), std::vector<std::string>{"weight"});
  view->to(torch::kDouble);
  EXPECT_EQ(module.attr("weight").toTensor().scalar_type(), torch::kDouble);
}

}  // namespace
}  // namespace paceline::parallel
