#include "paceline/loader/row_random.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <thread>

namespace paceline::loader {
namespace {

constexpr RowSeed kSeed{.seed = 3, .epoch = 1};

const std::map<std::string, std::function<torch::Tensor()>>& draws() {
  static const torch::Tensor half = torch::full({64}, 0.5);
  static const std::map<std::string, std::function<torch::Tensor()>> all = {
      {"rand", [] { return torch::rand({64}); }},
      {"randn", [] { return torch::randn({64}); }},
      {"randint", [] { return torch::randint(1000, {64}); }},
      {"randperm", [] { return torch::randperm(64); }},
      {"rand_like", [] { return torch::rand_like(half); }},
      {"normal", [] { return torch::normal(0.0, 1.0, {64}); }},
      {"uniform_", [] { return torch::empty({64}).uniform_(); }},
      {"exponential_", [] { return torch::empty({64}).exponential_(); }},
      {"random_", [] { return torch::empty({64}).random_(1000); }},
      {"bernoulli", [] { return torch::bernoulli(half); }},
      {"multinomial", [] { return torch::multinomial(half, 16, /*replacement=*/true); }},
      {"poisson", [] { return torch::poisson(half * 100); }},
      {"dropout", [] { return torch::nn::functional::dropout(half); }},
      {"initialisation", [] { return torch::nn::Linear(8, 8)->weight.detach().clone(); }},
  };
  return all;
}

torch::Tensor drawn(const std::function<torch::Tensor()>& draw, const RowSeed& seed, size_t row) {
  const RowRandom random(seed, row);
  return draw();
}

TEST(RowRandom, EveryDrawDependsOnSeedEpochAndRow) {
  for (const auto& [name, draw] : draws()) {
    SCOPED_TRACE(name);
    const torch::Tensor numbers = drawn(draw, kSeed, 5);
    EXPECT_TRUE(torch::equal(drawn(draw, kSeed, 5), numbers));
    EXPECT_FALSE(torch::equal(drawn(draw, kSeed, 6), numbers)) << "another row";
    EXPECT_FALSE(torch::equal(drawn(draw, {.seed = 3, .epoch = 2}, 5), numbers)) << "another epoch";
    EXPECT_FALSE(torch::equal(drawn(draw, {.seed = 4, .epoch = 1}, 5), numbers)) << "another seed";
    const RowRandom random(kSeed, 5);
    EXPECT_TRUE(torch::equal(draw(), numbers));
    EXPECT_FALSE(torch::equal(draw(), numbers)) << "the generator goes on";
  }
}

TEST(RowRandom, LeavesTheProcessesGeneratorAlone) {
  const torch::Generator process = at::detail::getDefaultCPUGenerator();
  const torch::Tensor before = process.get_state();
  for (const auto& [name, draw] : draws()) {
    drawn(draw, kSeed, 5);
    EXPECT_TRUE(torch::equal(process.get_state(), before)) << name;
  }
}

TEST(RowRandom, AGeneratorThatIsNamedStays) {
  torch::Generator named = at::detail::createCPUGenerator(8);
  const torch::Tensor wanted = torch::rand({4}, named);
  named.set_current_seed(8);
  RowRandom random(kSeed, 5);
  EXPECT_TRUE(torch::equal(torch::rand({4}, named), wanted));
  const torch::Tensor own = torch::rand({4}, random.generator());
  EXPECT_TRUE(torch::equal(drawn([] { return torch::rand({4}); }, kSeed, 5), own)) << "draws have the row's";
}

TEST(RowRandom, OtherThreadsDrawAsEver) {
  torch::manual_seed(2);
  const torch::Tensor wanted = torch::rand({4});
  torch::manual_seed(2);
  const RowRandom random(kSeed, 5);
  torch::Tensor other;
  std::thread([&] { other = torch::rand({4}); }).join();
  EXPECT_TRUE(torch::equal(other, wanted));
}

TEST(RowRandom, RowsInRowsHaveTheirOwn) {
  const auto draw = [] { return torch::rand({4}); };
  const torch::Tensor outer = drawn([] { return torch::rand({8}); }, kSeed, 5), inner = drawn(draw, kSeed, 6);
  const RowRandom random(kSeed, 5);
  const torch::Tensor first = draw();
  EXPECT_TRUE(torch::equal(drawn(draw, kSeed, 6), inner));
  EXPECT_TRUE(torch::equal(torch::cat({first, draw()}), outer));
}

TEST(RowRandom, GradientsPassThroughDraws) {
  const RowRandom random(kSeed, 5);
  const torch::Tensor ones = torch::ones({64}, torch::requires_grad());
  const torch::Tensor dropped = torch::dropout(ones, 0.5, /*train=*/true);
  dropped.sum().backward();
  EXPECT_TRUE(torch::equal(ones.grad(), dropped.detach()));
}

}  // namespace
}  // namespace paceline::loader
