#include "paceline/train/checkpoint_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "paceline/checkpoint/store.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/train/prepare_model.h"
#include "paceline/train/session.h"
#include "paceline/train/worker/session_internal.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Keeps what was reported.
class Reports final : public train::ReportSink {
 public:
  void submit(rpc::Report report) override { last = std::move(report); }
  bool takes_from_any_thread() const override { return true; }
  void fail(const std::exception_ptr&) override {}
  PublishedCheckpoints checkpoints(const rpc::CheckpointsRequest&) override { return {}; }
  void show_progress(rpc::ProgressBar) override {}
  rpc::Report last;
};

class CheckpointState : public ::testing::Test {
 protected:
  // A session of one rank; what it saves is staged, and published by publish().
  std::unique_ptr<train::Session> session_of(int64_t rank, int64_t world_size) {
    train::SessionOptions options;
    options.context = {.world_rank = rank, .world_size = world_size, .storage = folder_.path()};
    options.run_folder = folder_.path();
    options.identity = {.epoch = {1}, .attempt = {1}, .generation = {0}, .worker = {rank + 1}};
    options.group = comm::Group::create({}, nullptr);
    options.sink = &reports_;
    return std::make_unique<train::Session>(options);
  }

  Checkpoint publish(const std::vector<checkpoint::StagedPart>& parts, int64_t world_size = 1) {
    const checkpoint::Manifest about{.report = ++published_, .attempt = 1, .world_size = world_size};
    const auto published = checkpoint::Store(folder_.path()).publish(parts, about);
    return CheckpointAccess::published(published.ValueOrDie().path);
  }
  Checkpoint publish(const Checkpoint& saved) {
    return publish({{.rank = 0, .staged = CheckpointAccess::staged(saved).get()}});
  }

  testing::TemporaryFolder folder_;
  Reports reports_;
  int64_t published_ = 0;
};

TEST_F(CheckpointState, TheSecondOfAKindHasANumber) {
  torch::nn::Linear first(2, 2), second(2, 2);
  const auto session = session_of(0, 1);
  const Checkpoint checkpoint = publish(Checkpoint::save(first, second));
  EXPECT_THAT(testing::names_in(checkpoint.path()),
              AllOf(Contains("model.safetensors"), Contains("model_2.safetensors")));
  torch::nn::Linear one(2, 2), two(2, 2);
  checkpoint.load(one, two);
  EXPECT_TRUE(torch::equal(one->weight, first->weight));
  EXPECT_TRUE(torch::equal(two->weight, second->weight));
}

TEST_F(CheckpointState, AnItemCanHaveANameOfItsOwn) {
  torch::nn::Linear generator(2, 2), critic(2, 2);
  torch::optim::Adam optimizer(critic->parameters(), 0.25);
  critic->forward(torch::ones({1, 2})).sum().backward();
  optimizer.step();
  const auto session = session_of(0, 1);
  const Checkpoint checkpoint = publish(
      Checkpoint::save(named("generator", generator), named("critic", critic), named("critic_steps", optimizer)));
  EXPECT_THAT(
      testing::names_in(checkpoint.path()),
      AllOf(Contains("generator.safetensors"), Contains("critic.safetensors"), Contains("critic_steps.safetensors")));
  torch::nn::Linear one(2, 2);
  torch::optim::Adam steps(one->parameters(), 1);
  checkpoint.load(named("critic_steps", steps), named("critic", one));  // in any order, and not all of them
  EXPECT_TRUE(torch::equal(one->weight, critic->weight));
  EXPECT_EQ(static_cast<torch::optim::AdamOptions&>(steps.param_groups()[0].options()).lr(), 0.25);
}

TEST_F(CheckpointState, NamesOfItemsAreWordsAndDiffer) {
  torch::nn::Linear model(2, 2);
  const auto session = session_of(0, 1);
  const auto refusal = [](const auto&... items) -> std::string {
    try {
      Checkpoint::save(items...);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal(named("a/b", model)), AllOf(HasSubstr("\"a/b\""), HasSubstr("letters")));
  EXPECT_THAT(refusal(named("model", model), model), HasSubstr("two items of the checkpoint are named \"model\""));
}

struct Buffers : torch::nn::Module {
  void add(torch::ScalarType type) {
    torch::Tensor values = torch::arange(6, torch::kFloat).view({2, 3}).to(type);
    if (values.is_complex()) values = values * c10::complex<double>(1, 2);
    register_buffer("buffer_" + std::to_string(buffers().size()), values);
  }
};

TEST_F(CheckpointState, HoldsTensorsOfEveryTypeOfSafetensors) {
  Buffers saved, loaded;
  for (const auto type : {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16, torch::kInt64,
                          torch::kInt32, torch::kInt16, torch::kInt8, torch::kUInt8, torch::kBool, torch::kComplexFloat,
                          at::kUInt16, at::kUInt32, at::kUInt64, at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    saved.add(type);
    loaded.add(type);
  }
  for (torch::Tensor& buffer : loaded.buffers()) buffer.view(torch::kUInt8).zero_();
  const auto session = session_of(0, 1);
  publish(Checkpoint::save(saved)).load(loaded);
  for (size_t i = 0; i < saved.buffers().size(); ++i) {
    const torch::Tensor wanted = saved.buffers()[i], got = loaded.buffers()[i];
    EXPECT_TRUE(torch::equal(got.view(torch::kUInt8), wanted.view(torch::kUInt8))) << wanted.scalar_type();
  }
}

TEST_F(CheckpointState, IsNotLoadedWhereItsTypeWouldLoseItsMeaning) {
  Buffers saved, loaded;
  saved.add(torch::kFloat32);
  loaded.add(torch::kInt64);
  const auto session = session_of(0, 1);
  const Checkpoint checkpoint = publish(Checkpoint::save(saved));
  EXPECT_THAT([&] { checkpoint.load(loaded); },
              ::testing::ThrowsMessage<ConfigError>(HasSubstr("buffer_0: wanted type Long, got Float")));
  Buffers narrower;
  narrower.add(torch::kBFloat16);
  checkpoint.load(narrower);
  EXPECT_EQ(narrower.buffers()[0][1][2].item<float>(), 5);
}

TEST_F(CheckpointState, AModelOfAnotherLibrarysFileIsLoaded) {
  torch::nn::Linear saved(2, 2), loaded(2, 2);
  const auto session = session_of(0, 1);
  const Checkpoint own = publish(Checkpoint::save(saved));
  const testing::TemporaryFolder user;
  std::filesystem::copy_file(own.path() + "/model.safetensors", user.path() + "/model-00001-of-00001.safetensors");
  auto stage = checkpoint::Stage::create(folder_.path(), session->options().identity, 7).ValueOrDie();
  ASSERT_TRUE(stage.copy_folder(user.path()).ok());
  publish({{.rank = 0, .staged = stage.finish().ValueOrDie()}}).load(loaded);
  EXPECT_TRUE(torch::equal(loaded->weight, saved->weight));
}

TEST_F(CheckpointState, ATypeThatSafetensorsDoesNotKnowIsNamed) {
  struct Complex : torch::nn::Module {
    Complex() { register_buffer("phase", torch::zeros({2}, torch::kComplexDouble)); }
  };
  const auto session = session_of(0, 1);
  try {
    Checkpoint::save(std::make_shared<Complex>());
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("model/phase"), HasSubstr("ComplexDouble"), HasSubstr("view_as_real")));
  }
}

/// A body and a head; `head` names it.
struct Classifier : torch::nn::Module {
  explicit Classifier(const char* head) { register_module(head, last); }
  torch::nn::Linear body = register_module("body", torch::nn::Linear(2, 3));
  torch::nn::Linear last{3, 1};
};

TEST_F(CheckpointState, WithoutStrictWhatOnlyOneSideHasIsLeftAloneAndNamed) {
  const auto session = session_of(0, 1);
  Classifier saved("digits"), loaded("letters");
  const Checkpoint checkpoint = publish(Checkpoint::save(saved));
  const torch::Tensor own = loaded.last->weight.detach().clone();
  EXPECT_THAT([&] { checkpoint.load(loaded); },
              ::testing::ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("missing: letters.weight"), HasSubstr("left over: digits.weight"))));
  const LoadResult result = checkpoint.load(loaded, {.strict = false});
  EXPECT_THAT(result.missing_keys, ElementsAre("letters.bias", "letters.weight"));
  EXPECT_THAT(result.unexpected_keys, ElementsAre("digits.bias", "digits.weight"));
  EXPECT_TRUE(torch::equal(loaded.body->weight, saved.body->weight));
  EXPECT_TRUE(torch::equal(loaded.last->weight, own));
  EXPECT_THAT(checkpoint.load(saved).missing_keys, IsEmpty());
}

TEST_F(CheckpointState, WithoutStrictShapesAndOtherItemsMustFitAllTheSame) {
  const auto session = session_of(0, 1);
  torch::nn::Linear saved(2, 2), wider(2, 3), without_bias(torch::nn::LinearOptions(2, 2).bias(false));
  torch::optim::SGD optimizer(saved->parameters(), 0.1), of_wider(wider->parameters(), 0.1),
      of_other(without_bias->parameters(), 0.1);
  const Checkpoint checkpoint = publish(Checkpoint::save(saved, saved, optimizer));
  EXPECT_THAT([&] { checkpoint.load(wider, {.strict = false}); },
              ::testing::ThrowsMessage<ConfigError>(HasSubstr("weight: wanted shape [3, 2], got [2, 2]")));
  EXPECT_THROW(checkpoint.load(without_bias, of_other, {.strict = false}), ConfigError);
  const auto result = checkpoint.load(without_bias, without_bias, LoadOptions{.strict = false});
  EXPECT_THAT(result.unexpected_keys, ElementsAre("bias", "model_2.bias"));
  EXPECT_TRUE(torch::equal(without_bias->weight, saved->weight));
}

TEST_F(CheckpointState, TakesWhatPointsToAnItem) {
  const auto session = session_of(0, 1);
  const auto model = std::make_shared<torch::nn::LinearImpl>(2, 2),
             loaded = std::make_shared<torch::nn::LinearImpl>(2, 2);
  const std::unique_ptr<torch::optim::Optimizer> optimizer =
      std::make_unique<torch::optim::SGD>(model->parameters(), 0.1);
  const auto other = std::make_shared<torch::optim::SGD>(loaded->parameters(), 0.5);
  const auto random = std::make_unique<RandomState>();
  publish(Checkpoint::save(model, optimizer, random)).load(loaded, other, random);
  EXPECT_TRUE(torch::equal(loaded->weight, model->weight));
  EXPECT_EQ(other->param_groups()[0].options().get_lr(), 0.1);
  EXPECT_THROW(Checkpoint::save(std::shared_ptr<torch::optim::SGD>()), UsageError);
}

torch::jit::Module script(const torch::Tensor& weight) {
  torch::jit::Module inner("inner"), module("module");
  inner.register_parameter("weight", weight.clone().requires_grad_(), /*is_buffer=*/false);
  inner.register_buffer("scale", torch::ones({1}));
  inner.define("def forward(self, x):\n  return torch.matmul(x, self.weight) * self.scale\n");
  module.register_module("inner", inner);
  module.define("def forward(self, x):\n  return self.inner.forward(x)\n");
  return module;
}

TEST_F(CheckpointState, ATorchScriptModuleIsPreparedSavedAndLoaded) {
  const auto session = session_of(0, 1);
  auto saved = prepare_model(script(torch::ones({2, 1}))), loaded = script(torch::zeros({2, 1}));
  const torch::Tensor weight = saved.attr("inner").toModule().attr("weight").toTensor();
  torch::optim::SGD optimizer({weight}, 0.5);
  {
    const auto scope = no_sync(saved);
    saved.forward({torch::ones({1, 2})}).toTensor().sum().backward();
  }
  optimizer.step();
  const Checkpoint checkpoint = publish(Checkpoint::save(saved, optimizer));
  checkpoint.load(loaded);
  EXPECT_EQ(loaded.forward({torch::ones({1, 2})}).toTensor().item<float>(), 1);
  saved.forward({torch::ones({1, 2})}).toTensor().sum().backward();
  void_step();
  EXPECT_FALSE(weight.grad().defined()) << "the session knows the module";
  torch::jit::Module other("other");
  other.register_buffer("mean", torch::ones({1}));
  EXPECT_THAT(checkpoint.load(other, {.strict = false}).missing_keys, ElementsAre("mean"));
}

TEST_F(CheckpointState, AMissingItemIsNamedWithWhatThereIs) {
  torch::nn::Linear model(2, 2);
  const auto session = session_of(0, 1);
  const Checkpoint checkpoint = publish(Checkpoint::save(model));
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  try {
    checkpoint.load(model, optimizer);
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("has no \"optimizer\"; it has: model"), HasSubstr(checkpoint.path())));
  }
}

TEST_F(CheckpointState, RandomNumbersGoOnWhereTheyWere) {
  RandomState random;
  const auto session = session_of(0, 1);
  const Checkpoint checkpoint = publish(Checkpoint::save(random));
  const auto drawn = torch::rand({4});
  checkpoint.load(random);
  EXPECT_TRUE(torch::equal(torch::rand({4}), drawn));
  EXPECT_THROW(random.load_state_dict({}), ConfigError);
}

TEST_F(CheckpointState, RandomStatesAreThoseBetweenDrawsOfOtherThreads) {
  constexpr int64_t kNumbers = 1 << 18, kDraws = 40;
  torch::manual_seed(5);
  std::set<double> firsts;
  for (int64_t i = 0; i <= kDraws; ++i) firsts.insert(torch::rand({kNumbers}, torch::kDouble)[0].item<double>());
  torch::manual_seed(5);
  RandomState random;
  std::vector<StateDict> states = {random.state_dict()};
  std::atomic<bool> drawing = true;
  std::thread draws([&] {
    for (int64_t i = 0; i < kDraws; ++i) (void)torch::rand({kNumbers}, torch::kDouble);
    drawing = false;
  });
  while (drawing && states.size() < 10'000) {
    StateDict state = random.state_dict();
    if (!torch::equal(state.tensors.at("cpu"), states.back().tensors.at("cpu"))) states.push_back(std::move(state));
  }
  draws.join();
  for (const StateDict& state : states) {
    random.load_state_dict(state);
    EXPECT_TRUE(firsts.contains(torch::rand({1}, torch::kDouble)[0].item<double>())) << "in the middle of a draw";
  }
}

TEST_F(CheckpointState, OnARankThatWritesNothingMetadataIsRankZerosAffair) {
  torch::nn::Linear model(2, 2);
  const auto session = session_of(1, 2);
  Checkpoint saved = Checkpoint::save(model);
  EXPECT_EQ(saved.path(), "");
  saved.set_metadata({{"epoch", 3}});
  saved.update_metadata({{"epoch", 4}});
  EXPECT_EQ(saved.get_metadata(), Json::object());
  EXPECT_FALSE(std::filesystem::exists("/.metadata.json"));
  EXPECT_THROW(saved.to_directory(), UsageError);
  EXPECT_THROW(saved.as_directory(), UsageError);
  report({{"loss", 1}}, saved);
  EXPECT_TRUE(reports_.last.collective_save);
  EXPECT_EQ(reports_.last.staged, "");
}

TEST_F(CheckpointState, WhatIsSavedIsReportedOnceAndBeforeTheNextSave) {
  torch::nn::Linear model(2, 2);
  const auto session = session_of(0, 1);
  const Checkpoint first = Checkpoint::save(model);
  const Checkpoint second = Checkpoint::save(model);
  EXPECT_FALSE(std::filesystem::exists(first.path()));  // it would fill the disk
  EXPECT_THROW(report({{"loss", 1}}, first), UsageError);
  report({{"loss", 1}}, second);
  EXPECT_EQ(session->reports(), 1);
  EXPECT_THROW(report({{"loss", 2}}, second), UsageError);
  // What is reported is not the next save()'s to delete.
  Checkpoint::save(model);
  EXPECT_TRUE(std::filesystem::exists(second.path()));
}

TEST_F(CheckpointState, ModelsThatRanksTrainAloneAreSavedByEach) {
  std::vector<checkpoint::StagedPart> parts;
  std::vector<torch::Tensor> weights;
  for (const int64_t rank : {0, 1}) {
    const auto session = session_of(rank, 2);
    auto model = prepare_model(torch::nn::Linear(2, 2), {.parallel_strategy = "none"});
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    model->forward(torch::ones({1, 2})).sum().backward();
    optimizer.step();
    weights.push_back(model->weight.detach().clone());
    parts.push_back({.rank = rank, .staged = CheckpointAccess::staged(Checkpoint::save(model, optimizer)).get()});
  }
  const Checkpoint checkpoint = publish(parts, 2);
  for (const int64_t rank : {1, 0}) {
    const auto session = session_of(rank, 2);
    auto model = prepare_model(torch::nn::Linear(2, 2), {.parallel_strategy = "none"});
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    checkpoint.load(model, optimizer);
    EXPECT_TRUE(torch::equal(model->weight, weights[static_cast<size_t>(rank)]));
  }
  torch::nn::Linear outside(2, 2);  // of a program that only reads
  checkpoint.load(outside);
  EXPECT_TRUE(torch::equal(outside->weight, weights[0]));
}

}  // namespace
}  // namespace paceline
