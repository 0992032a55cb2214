#include "paceline/parallel/ddp/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "paceline/core/error.h"
#include "paceline/parallel/ddp/sync_batch_norm.h"
#include "paceline/testing/ranks.h"

namespace paceline::parallel {
namespace {

using comm::Group;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::run_ranks;
using torch::nn::Sequential;

std::shared_ptr<DataParallel> attach(const Sequential& model, const std::shared_ptr<Group>& group,
                                     const DdpOptions& options = {}) {
  return DataParallel::attach(model.ptr(), group, options, nullptr);
}

void copy_parameters(const torch::nn::Module& from, torch::nn::Module& to) {
  torch::NoGradGuard no_grad;
  const auto source = from.parameters();
  auto target = to.parameters();
  for (size_t i = 0; i < source.size(); ++i) target[i].copy_(source[i]);
}

Sequential linear_net() {
  return Sequential(torch::nn::Linear(6, 16), torch::nn::ReLU(), torch::nn::Linear(16, 3));
}

// What is learned: `batches` of inputs and targets, (steps, batch, …).
struct Task {
  Sequential (*make)();
  torch::Tensor inputs, targets;
};

constexpr int64_t kSteps = 20, kBatch = 8;

Task make_task(Sequential (*make)(), const std::vector<int64_t>& sample) {
  torch::manual_seed(3);
  std::vector<int64_t> shape = {kSteps, kBatch};
  shape.insert(shape.end(), sample.begin(), sample.end());
  return {make, torch::randn(shape), torch::randn({kSteps, kBatch, 3})};
}

torch::Tensor loss_of(Sequential model, const torch::Tensor& input, const torch::Tensor& target) {
  return torch::mse_loss(model->forward(input), target);
}

TEST(DataParallel, TwoBackwardsBeforeAStepAreBothAveraged) {
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    Sequential model(torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)));
    const auto data_parallel = attach(model, group);
    const torch::Tensor input = torch::full({1, 1}, group->rank() + 1.0);
    model->forward(input).sum().backward();
    model->forward(input).sum().backward();
    EXPECT_FLOAT_EQ(model->parameters()[0].grad().item<float>(), 3.0);
  });
}

// Three heads: which of them takes part is decided step by step.
struct Heads : torch::nn::Module {
  Heads() {
    for (const char* name : {"a", "b", "c"}) {
      heads.push_back(register_module(name, torch::nn::Linear(torch::nn::LinearOptions(2, 1).bias(false))));
      torch::nn::init::ones_(heads.back()->weight);
    }
  }
  torch::Tensor loss(const std::vector<int>& used) {
    torch::Tensor sum = torch::zeros({});
    for (const int head : used) sum = sum + heads[head]->forward(torch::ones({1, 2})).sum();
    return sum;
  }
  torch::Tensor gradient(int head) { return heads[head]->weight.grad(); }
  std::vector<torch::nn::Linear> heads;
};

TEST(DataParallel, UnusedParametersMayDifferByRank) {
  for (const bool view : {false, true}) {
    run_ranks(Group::in_process(2), [&](const std::shared_ptr<Group>& group) {
      auto model = std::make_shared<Heads>();
      DdpOptions options;
      options.find_unused_parameters = true;
      options.gradient_as_bucket_view = view;
      const auto data_parallel = DataParallel::attach(model, group, options, nullptr);
      for (int step = 0; step < 4; ++step) {
        model->zero_grad();
        const int own = static_cast<int>(group->rank());
        model->loss(step % 2 == 0 ? std::vector<int>{0, own} : std::vector<int>{own, 2}).backward();
        const auto value = [&](int head) { return model->gradient(head)[0][0].item<float>(); };
        if (step % 2 == 0) {
          EXPECT_FLOAT_EQ(value(0), 1.5);  // rank 0 twice, rank 1 once
          EXPECT_FLOAT_EQ(value(1), 0.5);
          EXPECT_FALSE(model->gradient(2).defined()) << "used nowhere, so without gradient";
        } else {
          EXPECT_FLOAT_EQ(value(0), 0.5);
          EXPECT_FLOAT_EQ(value(1), 0.5);
          EXPECT_FLOAT_EQ(value(2), 1.0);
        }
      }
    });
  }
}

TEST(DataParallel, TwoModelsOfOneLossMayHaveUnusedParameters) {
  // Rank 1 learns at the end of its backward that a head was unused: its buckets come in another order than rank 0's.
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    Sequential encoder(torch::nn::Linear(torch::nn::LinearOptions(3, 2).bias(false)));
    torch::nn::init::ones_(encoder->parameters()[0]);
    auto heads = std::make_shared<Heads>();
    DdpOptions options;
    options.find_unused_parameters = true;
    const auto trained_encoder = attach(encoder, group);
    const auto trained_heads = DataParallel::attach(heads, group, options, nullptr);
    for (int step = 0; step < 3; ++step) {
      encoder->zero_grad();
      heads->zero_grad();
      const torch::Tensor hidden = encoder->forward(torch::full({1, 3}, group->rank() + 1.0));
      torch::Tensor loss = heads->heads[0]->forward(hidden).sum();
      for (const int other : {1, 2}) {
        if (group->rank() == 0) loss = loss + heads->heads[other]->forward(hidden).sum();
      }
      loss.backward();
      // Rank 0's input is 1 and goes through three heads, rank 1's is 2 and goes through one.
      EXPECT_FLOAT_EQ(encoder->parameters()[0].grad()[0][0].item<float>(), (3.0 + 2.0) / 2) << "step " << step;
      EXPECT_FLOAT_EQ(heads->gradient(0)[0][0].item<float>(), (3.0 + 6.0) / 2) << "step " << step;
      EXPECT_FLOAT_EQ(heads->gradient(1)[0][0].item<float>(), 3.0 / 2) << "step " << step;
    }
  });
}

struct NormalisedHeads : torch::nn::Module {
  torch::nn::Linear trunk = register_module("trunk", torch::nn::Linear(4, 4));
  nn::SyncBatchNorm1d norm = register_module("norm", nn::SyncBatchNorm1d(4));
  torch::nn::Linear a = register_module("a", torch::nn::Linear(4, 1)),
                    b = register_module("b", torch::nn::Linear(4, 1));
};

TEST(DataParallel, AModelWithSyncBatchNormMayHaveUnusedParameters) {
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    auto model = std::make_shared<NormalisedHeads>();
    DdpOptions options;
    options.find_unused_parameters = true;
    options.bucket_cap_mb = 0.00001;
    const auto data_parallel = DataParallel::attach(model, group, options, nullptr);
    for (int step = 0; step < 4; ++step) {
      model->zero_grad();
      const torch::Tensor hidden = model->norm->forward(model->trunk->forward(torch::randn({8, 4})));
      torch::Tensor loss = model->a->forward(hidden).square().sum();
      if (group->rank() == 0 || step == 0) loss = loss + model->b->forward(hidden).square().sum();
      loss.backward();
      for (const auto& parameter : model->named_parameters()) {
        const auto gradients = group->all_gather(parameter.value().grad());
        EXPECT_TRUE(torch::equal(gradients[0], gradients[1])) << parameter.key() << " in step " << step;
      }
    }
  });
}

TEST(DataParallel, AnUnreachedParameterIsNamedAtOnceAndTheNextStepWorks) {
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    auto model = std::make_shared<Heads>();
    const auto data_parallel = DataParallel::attach(model, group, {}, nullptr);
    for (int round = 0; round < 2; ++round) {
      EXPECT_THAT(message_of<CollectiveError>([&] { model->loss({0, 2}).backward(); }),
                  AllOf(HasSubstr("\"b.weight\""), HasSubstr("find_unused_parameters")));
      model->zero_grad();
      model->loss({0, 1, 2}).backward();
      for (int head = 0; head < 3; ++head) EXPECT_FLOAT_EQ(model->gradient(head)[0][0].item<float>(), 1.0);
      model->zero_grad();
    }
  });
}

TEST(DataParallel, StaticGraphLearnsInTheFirstBackwardWhatIsReached) {
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    auto model = std::make_shared<Heads>();
    DdpOptions options;
    options.static_graph = true;
    const auto data_parallel = DataParallel::attach(model, group, options, nullptr);
    for (int step = 0; step < 4; ++step) {
      model->zero_grad();
      (model->loss({0, 2}) * (group->rank() + 1)).backward();
      EXPECT_FLOAT_EQ(model->gradient(0)[0][0].item<float>(), 1.5) << "step " << step;
      EXPECT_FLOAT_EQ(model->gradient(2)[0][0].item<float>(), 1.5);
      EXPECT_FALSE(model->gradient(1).defined());
    }
    EXPECT_THAT(message_of<CollectiveError>([&] { model->loss({0}).backward(); }),
                AllOf(HasSubstr("\"c.weight\""), HasSubstr("static_graph")));
  });
}

TEST(DataParallel, StaticGraphAveragesWhatHasAccumulated) {
  // Before the first synchronised backward and after it.
  for (const bool view : {false, true}) {
    for (const int first_round : {1, 3}) {
      run_ranks(Group::in_process(2), [&](const std::shared_ptr<Group>& group) {
        auto model = std::make_shared<Heads>();
        DdpOptions options;
        options.static_graph = true;
        options.gradient_as_bucket_view = view;
        const std::shared_ptr<ParallelModel> data_parallel = DataParallel::attach(model, group, options, nullptr);
        for (int step = 0; step < 4; ++step) {
          model->zero_grad();
          const int backwards = step == 0 ? first_round : 3;
          for (int i = 0; i < backwards; ++i) {
            std::optional<NoSync> local;
            if (i + 1 < backwards) local.emplace(data_parallel);
            (model->loss({0, 2}) * (group->rank() + 1)).backward();
          }
          EXPECT_FLOAT_EQ(model->gradient(0)[0][0].item<float>(), 1.5F * static_cast<float>(backwards))
              << "step " << step << " of " << first_round;
          EXPECT_FALSE(model->gradient(1).defined());
        }
      });
    }
  }
}

TEST(DataParallel, StaticGraphRefusesWhatOnlyLocalBackwardsReach) {
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    auto model = std::make_shared<Heads>();
    DdpOptions options;
    options.static_graph = true;
    const std::shared_ptr<ParallelModel> data_parallel = DataParallel::attach(model, group, options, nullptr);
    {
      const NoSync local(data_parallel);
      (model->loss({1}) * (group->rank() + 1)).backward();
    }
    EXPECT_THAT(message_of<CollectiveError>([&] { model->loss({0}).backward(); }),
                AllOf(HasSubstr("\"b.weight\""), HasSubstr("no_sync")));
  });
}

TEST(DataParallel, CompressedGradientsAreClose) {
  const Task task = make_task(&linear_net, {6});
  Sequential whole = linear_net();
  loss_of(whole, task.inputs[0], task.targets[0]).backward();
  for (const char* compression : {"bf16", "fp16"}) {
    run_ranks(Group::in_process(2), [&](const std::shared_ptr<Group>& group) {
      Sequential model = linear_net();
      copy_parameters(*whole, *model);
      DdpOptions options;
      options.compression = compression;
      const auto data_parallel = attach(model, group, options);
      loss_of(model, task.inputs[0].chunk(2)[group->rank()], task.targets[0].chunk(2)[group->rank()]).backward();
      for (size_t p = 0; p < model->parameters().size(); ++p) {
        const auto gradient = model->parameters()[p].grad();
        EXPECT_TRUE(torch::allclose(gradient, whole->parameters()[p].grad(), 1e-2, 1e-3)) << compression;
        EXPECT_FALSE(torch::equal(gradient, whole->parameters()[p].grad())) << compression;
      }
    });
  }
}

TEST(DataParallel, DifferentModelsAreAnErrorOnEveryRank) {
  run_ranks(Group::in_process(3), [](const std::shared_ptr<Group>& group) {
    Sequential model(torch::nn::Linear(4, group->rank() == 2 ? 7 : 5));
    EXPECT_THAT(message_of<CollectiveError>([&] { attach(model, group); }),
                AllOf(HasSubstr("\"0.weight\" on rank 2"), HasSubstr("[5, 4]"), HasSubstr("[7, 4]")));
    group->barrier();  // and nobody is left waiting
  });
}

TEST(DataParallel, SparseEmbeddingGradients) {
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    Sequential model(torch::nn::Embedding(torch::nn::EmbeddingOptions(10, 3).sparse(true)), torch::nn::Linear(3, 1));
    const auto data_parallel = attach(model, group);
    for (int step = 0; step < 3; ++step) {
      model->zero_grad();
      model->forward(torch::full({1}, group->rank(), torch::kInt64)).sum().backward();
      const auto gradient = model->parameters()[0].grad();
      ASSERT_TRUE(gradient.is_sparse());
      const auto dense = gradient.to_dense();
      const auto weight = model->parameters()[1].detach()[0];
      EXPECT_TRUE(torch::allclose(dense[0], weight / 2) && torch::allclose(dense[1], weight / 2));
      EXPECT_EQ(dense.slice(0, 2).abs().sum().item<double>(), 0);
    }
  });
}

struct Explosion : torch::autograd::Function<Explosion> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& input) { return input.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw std::runtime_error("the user's own mistake");
  }
};

TEST(DataParallel, AStepAfterABrokenBackwardIsRight) {
  const Task task = make_task(&linear_net, {6});
  Sequential whole = linear_net();
  loss_of(whole, task.inputs[0], task.targets[0]).backward();
  run_ranks(Group::in_process(2), [&](const std::shared_ptr<Group>& group) {
    Sequential model = linear_net();
    copy_parameters(*whole, *model);
    DdpOptions options;
    options.bucket_cap_mb = 0.0001;
    const auto data_parallel = attach(model, group, options);
    const auto own = [&](const torch::Tensor& all) { return all.chunk(2)[group->rank()]; };
    for (int round = 0; round < 4; ++round) {
      // The last layer's gradients are averaged already when the middle of the net throws.
      auto hidden = model[0]->as<torch::nn::Linear>()->forward(own(task.inputs[0]));
      auto broken = model[2]->as<torch::nn::Linear>()->forward(Explosion::apply(torch::relu(hidden))).sum();
      EXPECT_THAT(message_of<std::exception>([&] { broken.backward(); }), HasSubstr("own mistake"));
      model->zero_grad();
      loss_of(model, own(task.inputs[0]), own(task.targets[0])).backward();
      for (size_t p = 0; p < model->parameters().size(); ++p) {
        EXPECT_TRUE(torch::allclose(model->parameters()[p].grad(), whole->parameters()[p].grad(), 1e-5, 1e-6));
      }
      model->zero_grad();
    }
  });
}

TEST(DataParallel, AStaticGraphIsLearntAnewAfterABrokenFirstBackward) {
  run_ranks(Group::in_process(2), [&](const std::shared_ptr<Group>& group) {
    auto model = std::make_shared<Heads>();
    DdpOptions options;
    options.static_graph = true;
    const auto data_parallel = DataParallel::attach(model, group, options, nullptr);
    const torch::Tensor broken = model->loss({0, 1}) + Explosion::apply(model->loss({2}));
    EXPECT_THAT(message_of<std::exception>([&] { broken.backward(); }), HasSubstr("own mistake"));
    for (int step = 0; step < 4; ++step) {
      model->zero_grad();
      (model->loss({0, 2}) * (group->rank() + 1)).backward();
      EXPECT_FLOAT_EQ(model->gradient(0)[0][0].item<float>(), 1.5) << "step " << step;
      EXPECT_FLOAT_EQ(model->gradient(2)[0][0].item<float>(), 1.5) << "step " << step;
      EXPECT_FALSE(model->gradient(1).defined());
    }
  });
}

TEST(DataParallel, BuffersAreRankZeros) {
  for (const bool broadcast : {true, false}) {
    run_ranks(Group::in_process(2), [&](const std::shared_ptr<Group>& group) {
      Sequential model(torch::nn::Linear(2, 4), torch::nn::BatchNorm1d(4));
      DdpOptions options;
      options.broadcast_buffers = broadcast;
      const auto data_parallel = attach(model, group, options);
      for (int step = 0; step < 2; ++step) {
        model->forward(torch::randn({8, 2}) + group->rank() * 5).sum().backward();
      }
      const auto mean = group->all_gather(model->buffers()[0]);
      EXPECT_EQ(torch::equal(mean[0], mean[1]), broadcast);
      EXPECT_EQ(model->buffers()[2].item<int64_t>(), 2);
    });
  }
}

TEST(DataParallel, GraphsWithBatchNormOutliveABackward) {
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    Sequential model(torch::nn::Linear(2, 4), torch::nn::BatchNorm1d(4));
    const auto data_parallel = attach(model, group);
    const auto loss = [&] { return model->forward(torch::randn({8, 2}) + group->rank() * 5).square().sum(); };
    const torch::Tensor kept = loss();
    kept.backward({}, /*retain_graph=*/true);
    kept.backward();
    const torch::Tensor real = loss(), fake = loss();  // as of a discriminator
    real.backward();
    fake.backward();
    const auto mean = group->all_gather(model->buffers()[0]);
    EXPECT_TRUE(torch::equal(mean[0], mean[1]));
    const auto gradients = group->all_gather(model->parameters()[0].grad());
    EXPECT_TRUE(torch::equal(gradients[0], gradients[1]));
  });
}

TEST(DataParallel, SyncBatchNormModulesUseTheGlobalBatch) {
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    Sequential model(nn::SyncBatchNorm1d(1));
    DdpOptions options;
    options.sync_batch_norm = true;
    const auto data_parallel = attach(model, group, options);
    const auto output = model->forward(torch::full({4, 1}, group->rank() == 0 ? -1.0 : 1.0));
    EXPECT_NEAR(output[0][0].item<double>(), group->rank() == 0 ? -1 : 1, 1e-3) << "alone it would be 0";
    Sequential plain(torch::nn::Linear(1, 1), torch::nn::BatchNorm1d(1));
    EXPECT_THAT(message_of<ConfigError>([&] { attach(plain, group, options); }),
                AllOf(HasSubstr("\"1\""), HasSubstr("SyncBatchNorm")));
  });
}

TEST(DataParallel, FrozenAndSharedParameters) {
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    torch::nn::Linear tied(2, 2), frozen(2, 2);
    for (auto& parameter : frozen->parameters()) parameter.set_requires_grad(false);
    Sequential model(tied, frozen, tied);
    const auto data_parallel = attach(model, group);
    const auto weights = group->all_gather(frozen->weight);
    EXPECT_TRUE(torch::equal(weights[0], weights[1])) << "frozen ones come from rank 0 too";
    for (int step = 0; step < 3; ++step) {
      model->zero_grad();
      model->forward(torch::randn({3, 2})).sum().backward();
      const auto gradients = group->all_gather(tied->weight.grad());
      EXPECT_TRUE(torch::equal(gradients[0], gradients[1]));
      EXPECT_FALSE(frozen->weight.grad().defined());
    }
  });
}

TEST(DataParallel, AParameterThatItCannotAverageAnyMoreIsNamed) {
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    const auto step = [](Sequential& model, torch::ScalarType type) {
      model->zero_grad();
      model->forward(torch::ones({2, 6}, type)).sum().backward();
    };
    Sequential converted = linear_net();
    const auto first = attach(converted, group);
    step(converted, torch::kFloat32);
    converted->to(torch::kFloat64);
    EXPECT_THAT(message_of<UsageError>([&] { step(converted, torch::kFloat64); }),
                AllOf(HasSubstr("\"2."), HasSubstr("type or device"), HasSubstr("convert the model first")));

    Sequential unfrozen = linear_net();
    torch::Tensor weight = unfrozen[0]->as<torch::nn::Linear>()->weight.set_requires_grad(false);
    const auto second = attach(unfrozen, group);
    step(unfrozen, torch::kFloat32);
    weight.set_requires_grad(true);
    EXPECT_THAT(message_of<UsageError>([&] { step(unfrozen, torch::kFloat32); }),
                AllOf(HasSubstr("\"0.weight\""), HasSubstr("made trainable after")));

    Sequential longer = linear_net();
    auto third = attach(longer, group);
    longer->push_back(torch::nn::Linear(3, 3));
    EXPECT_THAT(message_of<UsageError>([&] { step(longer, torch::kFloat32); }), HasSubstr("\"3."));
    third = attach(longer, group);  // as the message says
    step(longer, torch::kFloat32);
    const auto gradients = group->all_gather(longer->parameters().back().grad());
    EXPECT_TRUE(torch::equal(gradients[0], gradients[1]));
  });
}

TEST(DataParallel, FindsWeightsThatDifferBetweenRanks) {
  run_ranks(Group::in_process(3), [](const std::shared_ptr<Group>& group) {
    Sequential model = linear_net();
    const auto data_parallel = attach(model, group);
    data_parallel->check_ranks_every(2);
    const auto step = [&] { model->forward(torch::ones({2, 6})).sum().backward(); };
    for (int i = 0; i < 4; ++i) step();
    {
      const torch::NoGradGuard no_grad;
      if (group->rank() == 2) model->parameters()[2][1][1] += 1e-6;
    }
    step();
    EXPECT_THAT(message_of<CollectiveError>(step), AllOf(HasSubstr("\"2.weight\" on rank 2"), HasSubstr("backward 6")));
  });
}

TEST(DataParallel, TrainsLocallyWhenItIsGone) {
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    Sequential model(torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)));
    attach(model, group).reset();
    (model->forward(torch::ones({1, 1})) * static_cast<double>(group->rank())).sum().backward();
    EXPECT_FLOAT_EQ(model->parameters()[0].grad().item<float>(), static_cast<float>(group->rank()));
  });
}

TEST(DataParallel, DoesNotKeepTheModelAndTakesItsConnectionsWithIt) {
  run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    Sequential model = linear_net();
    auto trained = attach(model, group);
    model->forward(torch::ones({1, 6})).sum().backward();
    const std::weak_ptr<torch::nn::Module> module = model.ptr();
    const std::weak_ptr<Group> connections = trained->group();
    const c10::weak_intrusive_ptr<c10::TensorImpl> weight(model->parameters()[0].getIntrusivePtr());
    model = nullptr;
    EXPECT_TRUE(module.expired());
    trained.reset();
    EXPECT_TRUE(weight.expired());
    EXPECT_TRUE(connections.expired());
    group->barrier();  // the others' connections stay
  });
}

TEST(DataParallel, ChecksItsOptions) {
  const auto group = Group::in_process(1)[0];
  DdpOptions options;
  options.compression = "zip";
  EXPECT_THAT(message_of<ConfigError>([&] { attach(linear_net(), group, options); }),
              AllOf(HasSubstr("compression"), HasSubstr("bf16")));
  options = {};
  options.bucket_cap_mb = 0;
  EXPECT_THROW(attach(linear_net(), group, options), ConfigError);
}

}  // namespace
}  // namespace paceline::parallel
