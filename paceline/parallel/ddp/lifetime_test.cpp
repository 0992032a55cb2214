// Who holds a prepared model, what its backward does when nobody does any more, and what changes with its group.
#include <gmock/gmock.h>

#include "paceline/core/error.h"
#include "paceline/parallel/ddp/data_parallel.h"
#include "paceline/testing/ranks.h"

namespace paceline::parallel {
namespace {

using comm::Group;
using ::testing::HasSubstr;
using testing::message_of;
using testing::run_ranks;

constexpr size_t kRanks = 2;

torch::Tensor input_of(const Group& group) {
  return torch::full({1, 2}, static_cast<double>(group.rank()));
}

TEST(DataParallelLifetime, AModuleInItKeepsTheGradientsAveraged) {
  run_ranks(Group::in_process(kRanks), [](const std::shared_ptr<Group>& group) {
    torch::nn::Linear part(2, 1);
    torch::nn::Sequential whole(part);
    auto data_parallel = DataParallel::attach(whole.ptr(), group, {}, nullptr);
    whole = nullptr;
    EXPECT_TRUE(data_parallel->is_held());
    part->forward(input_of(*group)).sum().backward();
    EXPECT_EQ(part->weight.grad()[0][0].item<double>(), 0.5);
    data_parallel->void_step();
    EXPECT_FALSE(part->weight.grad().defined());
    part = nullptr;
    EXPECT_FALSE(data_parallel->is_held());
  });
}

TEST(DataParallelLifetime, AGradientOfAModelThatIsGoneIsRefused) {
  run_ranks(Group::in_process(kRanks), [](const std::shared_ptr<Group>& group) {
    torch::nn::Linear model(2, 1);
    auto data_parallel = DataParallel::attach(model.ptr(), group, {}, nullptr);
    const torch::Tensor loss = model->forward(input_of(*group)).sum();
    model = nullptr;
    data_parallel->let_go();
    data_parallel = nullptr;
    EXPECT_THAT(message_of<UsageError>([&] { loss.backward(); }), HasSubstr("Keep the module as long as it trains"));
  });
}

TEST(DataParallelLifetime, ABackwardKeepsItToItsEnd) {
  run_ranks(Group::in_process(kRanks), [](const std::shared_ptr<Group>& group) {
    torch::nn::Linear model(2, 1);
    auto data_parallel = DataParallel::attach(model.ptr(), group, {}, nullptr);
    torch::Tensor input = input_of(*group).requires_grad_();
    input.register_hook([&](const torch::Tensor&) { data_parallel.reset(); });
    // The weight's gradient comes before the input's.
    model->forward(input.clone()).sum().backward();
    EXPECT_EQ(data_parallel, nullptr);
    EXPECT_EQ(model->weight.grad()[0][0].item<double>(), 0.5);
  });
}

// What fails at the end of one model on one rank leaves the other model whole on all.
TEST(DataParallelLifetime, TheEndOfAModelThatFailsLeavesTheOthersTheirs) {
  run_ranks(Group::in_process(kRanks), [](const std::shared_ptr<Group>& group) {
    torch::nn::Linear a(2, 1), b(2, 1), frozen(2, 1);
    for (auto& parameter : frozen->parameters()) parameter.requires_grad_(false);
    torch::nn::Sequential first(a, frozen);
    const auto of_a = DataParallel::attach(first.ptr(), group, {}, nullptr);
    const auto of_b = DataParallel::attach(b.ptr(), group, {}, nullptr);
    const torch::Tensor input = input_of(*group);
    torch::Tensor loss = (a->forward(input) + b->forward(input)).sum();
    if (group->rank() == 0) {
      for (auto& parameter : frozen->parameters()) parameter.requires_grad_(true);
      loss = loss + frozen->forward(input).sum();
      EXPECT_THAT(message_of<UsageError>([&] { loss.backward(); }), HasSubstr("made trainable after prepare_model()"));
    } else {
      loss.backward();
    }
    b->zero_grad();
    b->forward(input).sum().backward();
    EXPECT_EQ(b->weight.grad()[0][0].item<double>(), 0.5);
  });
}

// A rank is lost when some of the others have made their step already.
TEST(DataParallelLifetime, WeightsAreComparedInTheFirstBackwardOverAnotherGroup) {
  const auto others = Group::in_process(kRanks);
  run_ranks(Group::in_process(kRanks), [&](const std::shared_ptr<Group>& group) {
    torch::nn::Linear model(2, 1);
    const auto data_parallel = DataParallel::attach(model.ptr(), group, {}, nullptr);
    const auto step = [&] { model->forward(input_of(*group)).sum().backward(); };
    step();
    {
      const torch::NoGradGuard no_grad;
      if (group->rank() == 0) model->weight -= model->weight.grad();
    }
    data_parallel->rebuild(others[static_cast<size_t>(group->rank())]);
    EXPECT_FALSE(model->weight.grad().defined());
    EXPECT_THAT(message_of<CollectiveError>(step), HasSubstr("\"weight\" on rank 1"));
    data_parallel->copy_from(1);
    step();
    const auto weights = data_parallel->group()->all_gather(model->weight.detach());
    EXPECT_TRUE(torch::equal(weights[0], weights[1]));
  });
}

}  // namespace
}  // namespace paceline::parallel
