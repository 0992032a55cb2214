// Same model, data and seed: N workers compute what one computes with the global batch, and a run that was killed and
// resumed ends with the weights of one that never was. This program is its own driver and worker.
#include <gtest/gtest.h>
#include <paceline/paceline.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>
#include <thread>

#include "paceline/testing/temporary_folder.h"
#include "paceline/track/metrics_history.h"

namespace {

using paceline::Checkpoint;
using paceline::Config;
using paceline::Json;

// 160 rows of a noisy linear map; row i is a function of i alone.
class Rows : public torch::data::Dataset<Rows> {
 public:
  torch::data::Example<> get(size_t index) override {
    auto generator = at::detail::createCPUGenerator(/*seed=*/index + 1);
    auto input = torch::randn({16}, generator);
    auto target = input.narrow(0, 0, 4) * 2 - 1 + 0.1 * torch::randn({4}, generator);
    return {input, target};
  }
  torch::optional<size_t> size() const override { return 160; }
};

// With dropout each rank draws its own masks: a resumed run must draw what the uninterrupted one drew.
torch::nn::Sequential make_model(double dropout) {
  torch::manual_seed(7 + paceline::get_context().get_world_rank());
  return torch::nn::Sequential(torch::nn::Linear(16, 32), torch::nn::Tanh(), torch::nn::Dropout(dropout),
                               torch::nn::Linear(32, 4));
}

// The exact bits of all parameters.
Json bits(const torch::nn::Sequential& model) {
  Json words = Json::array();
  for (const auto& parameter : model->parameters()) {
    const auto flat = parameter.detach().contiguous();
    const auto* values = flat.const_data_ptr<float>();
    for (int64_t i = 0; i < flat.numel(); ++i) {
      uint32_t word;
      std::memcpy(&word, values + i, sizeof word);
      words.push_back(word);
    }
  }
  return words;
}

Json train(const Config& config) {
  const auto context = paceline::get_context();
  auto model = paceline::prepare_model(make_model(config.get<double>("dropout", 0)));
  auto loader =
      paceline::prepare_data_loader(Rows().map(torch::data::transforms::Stack<>()),
                                    {.batch_size = 32 / context.get_world_size(), .shuffle = true, .drop_last = true});
  paceline::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  paceline::RandomState random;
  if (auto checkpoint = paceline::get_checkpoint()) checkpoint->load(model, optimizer, loader, random);
  const int64_t kill_at = config.get<int64_t>("kill_at", -1);
  const bool checkpoints = config.get<bool>("checkpoints", false);
  int64_t step = (loader.epoch() + 1) * loader.size() - loader.remaining();
  while (step < 20) {
    for (auto& [inputs, targets] : loader) {
      auto loss = torch::mse_loss(model->forward(inputs), targets);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      ++step;
      std::optional<Checkpoint> checkpoint;
      if (checkpoints) checkpoint = Checkpoint::save(model, optimizer, loader, random);
      paceline::report({{"loss", loss.item<double>()}, {"step", step}}, checkpoint, {.reduce = "mean"});
      if (step == kill_at && context.get_attempt() == 1 && context.get_world_rank() == 1) ::raise(SIGKILL);
      if (step == 20) break;
    }
  }
  return bits(model);
}
PACELINE_TRAIN_LOOP(train);

// Rank 1 goes on for longer than a deadlock takes to be found when rank 0 has no more data.
constexpr std::array<int64_t, 2> kUnevenBatches = {3, 30};
constexpr auto kUnevenBatchTime = std::chrono::milliseconds(100);

torch::nn::Sequential make_uneven_model() {
  torch::manual_seed(7);
  return torch::nn::Sequential(torch::nn::Linear(16, 8), torch::nn::Tanh(), torch::nn::Linear(8, 4));
}

torch::optim::SGD optimizer_of(const torch::nn::Sequential& model) {
  return torch::optim::SGD(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

// Of four rows that no other rank or batch has.
torch::Tensor uneven_loss(torch::nn::Sequential model, int64_t rank, int64_t batch) {
  std::vector<torch::Tensor> inputs, targets;
  for (int64_t row = 0; row < 4; ++row) {
    const auto example = Rows().get(static_cast<size_t>((batch * 2 + rank) * 4 + row));
    inputs.push_back(example.data);
    targets.push_back(example.target);
  }
  return torch::mse_loss(model->forward(torch::stack(inputs)), torch::stack(targets));
}

Json values(const torch::nn::Sequential& model) {
  const auto flat = torch::nn::utils::parameters_to_vector(model->parameters()).detach();
  return std::vector<float>(flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel());
}

// Rows of one rank end earlier, and then both make one more step together, whose momenta are those of the longer one.
Json train_unevenly() {
  const int64_t rank = paceline::get_context().get_world_rank();
  auto model = paceline::prepare_model(make_uneven_model());
  auto optimizer = optimizer_of(model);
  const auto step = [&](int64_t batch) {
    optimizer.zero_grad();
    uneven_loss(model, rank, batch).backward();
    optimizer.step();
  };
  const auto loop = [&] {
    for (int64_t batch = 0; batch < kUnevenBatches.at(rank); ++batch) {
      if (batch >= kUnevenBatches.front()) std::this_thread::sleep_for(kUnevenBatchTime);
      step(batch);
    }
  };
  paceline::join(loop, model, optimizer);
  step(kUnevenBatches.back());
  const auto weights = paceline::all_gather(torch::nn::utils::parameters_to_vector(model->parameters()).detach());
  if (!torch::equal(weights[0], weights[1])) throw std::runtime_error("the ranks ended with different weights");
  return values(model);
}
PACELINE_TRAIN_LOOP(train_unevenly);

// What PyTorch's Join makes of it: gradients are summed over the ranks that have data, and divided by the number of
// all.
Json trained_unevenly_by_one() {
  const auto model = make_uneven_model();
  auto optimizer = optimizer_of(model);
  for (int64_t batch = 0; batch <= kUnevenBatches.back(); ++batch) {
    optimizer.zero_grad();
    const bool is_together = batch < kUnevenBatches.front() || batch == kUnevenBatches.back();
    for (const int64_t rank : {0, 1}) {
      if (rank == 1 || is_together) (uneven_loss(model, rank, batch) / 2).backward();
    }
    optimizer.step();
  }
  return values(model);
}

class Golden : public ::testing::Test {
 protected:
  paceline::Result run(int workers, Config config) {
    paceline::TorchTrainerOptions options;
    options.train_loop_config = std::move(config);
    options.scaling_config.num_workers = workers;
    options.run_config.storage_path = storage_.path();
    options.run_config.failure_config.max_failures = 1;
    options.run_config.log_level = "ERROR";
    return paceline::TorchTrainer(train, options).fit();
  }

  // Mean loss of the ranks, by step.
  static std::vector<double> losses(const paceline::Result& result) {
    std::map<int64_t, std::vector<double>> by_report;
    for (const auto& row : paceline::track::read_history(result.path).ValueOrDie()) {
      by_report[row.report].push_back(row.metrics.at("loss").get<double>());
    }
    std::vector<double> means;
    for (const auto& [report, values] : by_report) {
      means.push_back(std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()));
    }
    return means;
  }

  paceline::testing::TemporaryFolder storage_;
};

TEST_F(Golden, OneTwoAndFourWorkersHaveTheSameLosses) {
  const auto one = losses(run(1, {}));
  ASSERT_EQ(one.size(), 20u);
  EXPECT_LT(one.back(), one.front() / 2);  // it does train
  for (const int workers : {2, 4}) {
    const auto many = losses(run(workers, {}));
    ASSERT_EQ(many.size(), one.size());
    for (size_t step = 0; step < one.size(); ++step) {
      EXPECT_NEAR(many[step], one[step], 1e-5 * one[step]) << workers << " workers, step " << step;
    }
  }
}

TEST_F(Golden, RanksWithUnevenRowsEndAsOneProcessThatAveragesTheirGradientsAndDoNotHang) {
  paceline::TorchTrainerOptions options;
  options.scaling_config.num_workers = 2;
  options.run_config.storage_path = storage_.path();
  options.run_config.log_level = "ERROR";
  options.run_config.debug_config = {.hang_action = "fail", .hang_floor_s = 2};
  const auto result = paceline::TorchTrainer(train_unevenly, options).fit();
  EXPECT_FALSE(std::filesystem::exists(result.path + "/hang"));
  const auto one = trained_unevenly_by_one().get<std::vector<float>>();
  const auto both = result.return_value.get<std::vector<float>>();
  ASSERT_EQ(both.size(), one.size());
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(both[i], one[i], 1e-5) << "weight " << i;
}

TEST_F(Golden, KilledAtARandomStepAndResumedEndsWithTheSameWeights) {
  const auto whole = run(2, {{"checkpoints", true}, {"dropout", 0.2}});
  const int64_t kill_at = 1 + static_cast<int64_t>(std::random_device{}() % 19);
  SCOPED_TRACE("killed after step " + std::to_string(kill_at));
  const auto resumed = run(2, {{"checkpoints", true}, {"dropout", 0.2}, {"kill_at", kill_at}});
  const auto rows = paceline::track::read_history(resumed.path).ValueOrDie();
  EXPECT_EQ(rows.back().attempt, 2);  // it was killed
  EXPECT_EQ(resumed.return_value, whole.return_value);
}

}  // namespace

int main(int argc, char** argv) {
  paceline::init(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
