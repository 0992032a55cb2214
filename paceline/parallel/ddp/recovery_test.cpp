// Ranks are lost one after the other, and a model trains on in the processes that are left.
#include <gmock/gmock.h>

#include "paceline/core/peer_lost.h"
#include "paceline/parallel/ddp/data_parallel.h"
#include "paceline/parallel/ddp/sync_batch_norm.h"
#include "paceline/testing/rank_processes.h"

namespace paceline::parallel {
namespace {

using comm::Group;
using testing::RankProcess;

// Process 2 is lost in the backward of step 2, process 1 at the begin of step 4.
constexpr int64_t kFirstLost = 2, kSecondLost = 4, kSteps = 6;

struct Variant {
  const char* name;
  DdpOptions options = {};
  bool synchronises_batches = false;
};

std::vector<Variant> variants() {
  std::vector<Variant> all{{"Plain"},  {"StaticGraph"}, {"Views"},
                           {"Unused"}, {"Compressed"},  {"SyncBatchNorm", {}, true}};
  all[1].options.static_graph = true;
  all[2].options.gradient_as_bucket_view = true;
  all[3].options.find_unused_parameters = true;
  all[4].options.compression = "bf16";
  for (Variant& variant : all) variant.options.bucket_cap_mb = 0.001;
  return all;
}

struct Net : torch::nn::Module {
  explicit Net(bool synchronises_batches) {
    torch::manual_seed(1);
    first = register_module("first", torch::nn::Linear(20, 150));
    if (synchronises_batches) norm = register_module("norm", paceline::nn::SyncBatchNorm1d(150));
    last = register_module("last", torch::nn::Linear(150, 3));
    seldom = register_module("seldom", torch::nn::Linear(20, 3));
  }
  torch::Tensor forward(const torch::Tensor& input, bool all) {
    torch::Tensor hidden = first->forward(input);
    if (norm) hidden = norm->forward(hidden);
    const torch::Tensor output = last->forward(torch::tanh(hidden));
    return all ? output + seldom->forward(input) : output;
  }
  std::vector<torch::Tensor> state() const {
    std::vector<torch::Tensor> tensors = parameters();
    for (const torch::Tensor& buffer : buffers()) tensors.push_back(buffer);
    return tensors;
  }
  torch::nn::Linear first = nullptr, last = nullptr, seldom = nullptr;
  paceline::nn::SyncBatchNorm1d norm = nullptr;
};

struct Training {
  Training(const Variant& of, const std::shared_ptr<Group>& with, const Json& start = {})
      : variant(of), net(std::make_shared<Net>(of.synchronises_batches)), group(with) {
    if (!start.is_null()) testing::set_numbers(start, net->state());
    model = DataParallel::attach(net, group, variant.options, nullptr);
  }

  void make_step(int64_t step) {
    torch::manual_seed(static_cast<uint64_t>(100 * step + group->rank()));
    const torch::Tensor input = torch::randn({4, 20});
    // With find_unused_parameters the ranks reach different ones.
    const bool all = !variant.options.find_unused_parameters || (step + group->rank()) % 2 == 0;
    net->forward(input, all).square().mean().backward();
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : net->parameters()) {
      if (parameter.grad().defined()) parameter -= parameter.grad() * 0.1;
      parameter.mutable_grad().reset();
    }
  }
  void make_steps(int64_t from, int64_t to) {
    for (int64_t step = from; step < to; ++step) make_step(step);
  }
  // The step in which another process is lost; gives who that is.
  std::vector<int64_t> lose_in(int64_t step) {
    try {
      make_step(step);
    } catch (const PeerLost& lost) {
      return lost.ranks();
    }
    throw std::runtime_error("nobody is missed");
  }
  void go_on_over(const std::shared_ptr<Group>& next) {
    group = next;
    model->rebuild(next);
  }
  Json state() const { return testing::numbers_of(net->state()); }

  const Variant variant;
  const std::shared_ptr<Net> net;
  std::shared_ptr<Group> group;
  std::shared_ptr<DataParallel> model;
};

Json lose_two(const Variant& variant, RankProcess& self) {
  const int64_t number = self.number();
  Training training(variant, self.meet("three", number, 3));
  training.make_steps(0, kFirstLost);
  Json gave;
  gave["at_first"] = training.state();
  if (number == 2) training.net->first->weight.register_hook([&self](const torch::Tensor&) { self.die(); });
  gave["first"] = training.lose_in(kFirstLost);
  // Of the lost step statistics of a batch may remain, in the ranks that had them: begin it with what was.
  testing::set_numbers(gave["at_first"], training.net->state());
  training.go_on_over(self.meet("two", number, 2));
  training.make_steps(kFirstLost, kSecondLost);
  gave["at_second"] = training.state();
  if (number == 1) self.die();
  gave["second"] = training.lose_in(kSecondLost);
  testing::set_numbers(gave["at_second"], training.net->state());
  training.go_on_over(self.meet("one", 0, 1));
  training.make_steps(kSecondLost, kSteps);
  gave["at_end"] = training.state();
  return gave;
}

class Recovery : public ::testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(DataParallel, Recovery, ::testing::ValuesIn(variants()),
                         [](const auto& variant) { return std::string(variant.param.name); });

TEST_P(Recovery, ModelsOutliveTheirRanks) {
  ::setenv("DDP_DISABLE_COMM_MEM", "0", 1);
  const Variant& variant = GetParam();
  const auto ends = testing::run_rank_processes(3, [&](RankProcess& self) { return lose_two(variant, self); });
  ASSERT_FALSE(ends[0].is_killed);
  EXPECT_TRUE(ends[1].is_killed && ends[2].is_killed);
  const Json& gave = ends[0].gave;
  ASSERT_TRUE(gave.is_object());
  EXPECT_EQ(gave["first"], Json::array({2}));
  EXPECT_EQ(gave["second"], Json::array({1}));
  const auto pair = testing::run_rank_processes(2, [&](RankProcess& self) {
    Training training(variant, self.meet("fresh", self.number(), 2), gave["at_first"]);
    training.make_steps(kFirstLost, kSecondLost);
    return training.state();
  });
  EXPECT_TRUE(pair[0].gave == gave["at_second"]);
  EXPECT_TRUE(pair[1].gave == gave["at_second"]);
  const auto single = testing::run_rank_processes(1, [&](RankProcess& self) {
    Training training(variant, self.meet("fresh", 0, 1), gave["at_second"]);
    training.make_steps(kSecondLost, kSteps);
    return training.state();
  });
  EXPECT_TRUE(single[0].gave == gave["at_end"]);
}

}  // namespace
}  // namespace paceline::parallel
