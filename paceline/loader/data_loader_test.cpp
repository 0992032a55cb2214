#include "paceline/loader/data_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <numeric>
#include <thread>

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Row i is the image [i, i] with label i.
class Numbers : public torch::data::datasets::Dataset<Numbers> {
 public:
  explicit Numbers(size_t size) : size_(size) {}
  torch::data::Example<> get(size_t row) override {
    if (row == bad_row) throw std::runtime_error("the file is torn");
    return {torch::full({2}, static_cast<float>(row)), torch::tensor(static_cast<int64_t>(row))};
  }
  std::optional<size_t> size() const override { return size_; }

  size_t bad_row = ~size_t{0};

 private:
  size_t size_;
};

/// Not of torch's: whole batches at once.
struct Bulk {
  torch::Tensor values = torch::arange(10);
  size_t size() const { return 10; }
  std::pair<torch::Tensor, torch::Tensor> get_batch(const std::vector<size_t>& rows) {
    const torch::Tensor index = torch::tensor(std::vector<int64_t>(rows.begin(), rows.end()));
    return {values.index({index}), index};
  }
};

template <class Loader>
std::vector<int64_t> labels_of(Loader& loader, int64_t limit = -1) {
  std::vector<int64_t> result;
  int64_t batches = 0;
  for (auto& [images, labels] : loader) {
    EXPECT_TRUE(torch::equal(images.select(1, 0).to(torch::kLong), labels));
    for (int64_t i = 0; i < labels.size(0); ++i) result.push_back(labels[i].template item<int64_t>());
    if (++batches == limit) break;
  }
  return result;
}

std::vector<int64_t> upto(int64_t end) {
  std::vector<int64_t> numbers(static_cast<size_t>(end));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(DataLoader, StacksExamplesAndGivesThemInOrder) {
  for (const int64_t num_workers : {0, 1, 3}) {
    DataLoader loader(Numbers(23), {.batch_size = 4, .num_workers = num_workers});
    EXPECT_EQ(loader.size(), 6);
    EXPECT_EQ(loader.batch_size(), 4);
    EXPECT_EQ(labels_of(loader), upto(23));
    EXPECT_EQ(loader.epoch(), 1);
    EXPECT_EQ(labels_of(loader), upto(23));
  }
}

TEST(DataLoader, TakesChainedAndForeignDataSets) {
  DataLoader chained(Numbers(9).map(torch::data::transforms::Stack<>()), {.batch_size = 4, .num_workers = 2});
  EXPECT_EQ(labels_of(chained), upto(9));
  DataLoader bulk(Bulk{}, {.batch_size = 4});
  std::vector<int64_t> sizes;
  for (auto& [values, index] : bulk) {
    EXPECT_TRUE(torch::equal(values, index));
    sizes.push_back(values.size(0));
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{4, 4, 2}));
}

TEST(DataLoader, LeavingTheLoopEndsTheThreadsAndTheNextLoopIsTheNextEpoch) {
  DataLoader loader(Numbers(100), {.batch_size = 2, .num_workers = 2, .prefetch = 8});
  EXPECT_EQ(labels_of(loader, 3), upto(6));
  EXPECT_EQ(loader.epoch(), 1);
  EXPECT_EQ(labels_of(loader).size(), 100u);
}

TEST(DataLoader, ANewIterationEndsTheOneBefore) {
  DataLoader loader(Numbers(10), {.batch_size = 2});
  auto first = loader.begin();
  {
    auto second = loader.begin();
    EXPECT_THROW(++first, UsageError);
    EXPECT_EQ(second->target[0].item<int64_t>(), 0);
    {
      const auto dropped = std::move(first);
    }
    ++second;
    EXPECT_EQ(second->target[0].item<int64_t>(), 2);
  }
}

TEST(DataLoader, ResumesInTheMiddleOfAnEpoch) {
  const DataLoaderOptions options{.batch_size = 3, .shuffle = true};
  DataLoader whole(Numbers(31), options);
  const auto all = labels_of(whole);
  DataLoader stopped(Numbers(31), options);
  std::vector<int64_t> seen;
  StateDict state;
  for (auto& [images, labels] : stopped) {
    for (int64_t i = 0; i < labels.size(0); ++i) seen.push_back(labels[i].item<int64_t>());
    state = stopped.state_dict();  // after the step
    if (seen.size() == 12) break;
  }
  DataLoader resumed(Numbers(31), options);
  resumed.load_state_dict(state);
  EXPECT_EQ(resumed.remaining(), 7);
  for (const int64_t label : labels_of(resumed)) seen.push_back(label);
  EXPECT_EQ(seen, all);
}

TEST(DataLoader, GivesTheBatchOfAVoidStepAgainUntouched) {
  const auto ledger = std::make_shared<StepLedger>();
  DataLoader loader(Numbers(8), {.batch_size = 2, .prefetch = 3}, {.ledger = ledger});
  std::vector<float> firsts;
  for (auto& [images, labels] : loader) {
    EXPECT_FALSE(ledger->is_void());
    firsts.push_back(images[0][0].item<float>());
    images.mul_(100);  // what a user does to a batch does not come back
    if (firsts.size() == 2 || firsts.size() == 3) ledger->void_step();
  }
  EXPECT_EQ(firsts, (std::vector<float>{0, 2, 2, 2, 4, 6}));
  EXPECT_EQ(ledger->count(), 4);
}

TEST(DataLoader, AnErrorNamesTheRow) {
  Numbers numbers(20);
  numbers.bad_row = 9;
  for (const int64_t num_workers : {0, 2}) {
    DataLoader loader(numbers, {.batch_size = 4, .num_workers = num_workers});
    int batches = 0;
    try {
      for ([[maybe_unused]] auto& batch : loader) ++batches;
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("row 9: the file is torn"));
      EXPECT_THROW(std::rethrow_if_nested(error), std::runtime_error);
    }
    EXPECT_EQ(batches, 2);
  }
  DataLoader chained(numbers.map(torch::data::transforms::Stack<>()), {.batch_size = 20});
  try {
    chained.begin();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("one of the rows 0, 1, 2, 3, 4, 5, 6, 7, … (20 rows): the file"));
  }
}

TEST(DataLoader, GoesOnBehindABatchThatCouldNotBeLoaded) {
  for (const int64_t num_workers : {0, 2}) {
    Numbers numbers(18);
    numbers.bad_row = 9;
    DataLoader loader(numbers, {.batch_size = 4, .num_workers = num_workers});
    std::vector<int64_t> firsts, remaining;
    int errors = 0;
    for (auto batch = loader.begin(); batch != loader.end();) {
      firsts.push_back(batch->target[0].item<int64_t>());
      remaining.push_back(loader.remaining());
      if (firsts.size() == 3) {
        EXPECT_EQ(loader.state_dict().values.at("position"), 16);
      }
      try {
        ++batch;
      } catch (const Error&) {
        ++errors;
        EXPECT_THROW(*batch, UsageError);
        EXPECT_EQ(loader.state_dict().values.at("position"), 12) << "past the rows of the batch that failed";
        ++batch;
      }
    }
    EXPECT_EQ(firsts, (std::vector<int64_t>{0, 4, 12, 16})) << num_workers;
    EXPECT_EQ(remaining, (std::vector<int64_t>{5, 4, 2, 1}));
    EXPECT_EQ(errors, 1);
  }
}

template <class Dataset>
std::string load_error_of(Dataset dataset) {
  DataLoader loader(std::move(dataset), {.batch_size = 4});
  auto batch = loader.begin();
  try {
    ++batch;
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(DataLoader, NamesTheRowThatDoesNotFitItsBatch) {
  struct Ragged {
    size_t size() const { return 8; }
    torch::data::Example<> get(size_t row) { return {torch::ones({row == 6 ? 3 : 2}), torch::ones({})}; }
  };
  EXPECT_THAT(load_error_of(Ragged()), AllOf(HasSubstr("row 6 has [3], row 4 has [2]"), HasSubstr("pad them")));
  struct RaggedLabels {
    size_t size() const { return 8; }
    torch::data::Example<> get(size_t row) { return {torch::ones({2}), torch::ones({row == 7 ? 1 : 2})}; }
  };
  EXPECT_THAT(load_error_of(RaggedLabels()), HasSubstr("row 7 has [1], row 4 has [2]"));
  struct Unlabelled {
    size_t size() const { return 8; }
    torch::data::Example<> get(size_t row) { return {torch::ones({2}), row == 5 ? torch::Tensor() : torch::ones({})}; }
  };
  EXPECT_THAT(load_error_of(Unlabelled()), HasSubstr("row 5 of the dataset has a tensor that is not defined"));
  struct Mixed {
    size_t size() const { return 8; }
    torch::Tensor get(size_t row) { return row == 5 ? torch::zeros({2}).to_sparse() : torch::ones({2}); }
  };
  EXPECT_THAT(load_error_of(Mixed()), AllOf(HasSubstr("one of the rows 4, 5, 6, 7"), Not(HasSubstr("frame #0"))));
}

/// Rows of random numbers, from the generator of the row and of the batch.
struct Noise {
  size_t size() const { return 12; }
  torch::Tensor get(size_t, torch::Generator& generator) { return torch::rand({3}, generator); }
};
struct NoiseInBulk {
  size_t size() const { return 12; }
  torch::Tensor get_batch(const std::vector<size_t>& rows, torch::Generator& generator) {
    return torch::rand({static_cast<int64_t>(rows.size()), 3}, generator);
  }
};

/// The same from whatever LibTorch draws from by itself.
struct GlobalNoise {
  size_t size() const { return 12; }
  torch::Tensor get(size_t) { return torch::rand({2}) + torch::dropout(torch::ones({2}), 0.5, /*train=*/true); }
};
struct GlobalNoiseInBulk {
  size_t size() const { return 12; }
  torch::Tensor get_batch(const std::vector<size_t>& rows) {
    return torch::randn({static_cast<int64_t>(rows.size()), 3});
  }
};

template <class Dataset>
torch::Tensor epoch_of(DataLoader<Dataset>& loader, int64_t epoch) {
  loader.set_epoch(epoch);
  std::vector<torch::Tensor> batches;
  for (auto& batch : loader) batches.push_back(batch);
  return torch::cat(batches);
}

template <class Dataset>
void expect_random_numbers_of_rows() {
  DataLoader<Dataset> alone(Dataset(), {.batch_size = 2, .num_workers = 0});
  const torch::Tensor first = epoch_of(alone, 0), second = epoch_of(alone, 1);
  EXPECT_FALSE(torch::equal(first, second)) << "another epoch";
  EXPECT_EQ(std::get<0>(torch::_unique(first)).numel(), first.numel()) << "every row has its own";
  DataLoader<Dataset> threads(Dataset(), {.batch_size = 2, .num_workers = 3});
  EXPECT_TRUE(torch::equal(epoch_of(threads, 1), second));
  DataLoader<Dataset> other_seed(Dataset(), {.batch_size = 2, .seed = 1});
  EXPECT_FALSE(torch::equal(epoch_of(other_seed, 0), first));
}

TEST(DataLoader, RandomNumbersDependOnSeedEpochAndRow) {
  torch::manual_seed(1);
  const torch::Tensor wanted = torch::rand({1});
  torch::manual_seed(1);
  expect_random_numbers_of_rows<Noise>();
  expect_random_numbers_of_rows<NoiseInBulk>();
  expect_random_numbers_of_rows<GlobalNoise>();
  expect_random_numbers_of_rows<GlobalNoiseInBulk>();
  EXPECT_TRUE(torch::equal(torch::rand({1}), wanted)) << "the train loop's numbers are its own";
}

TEST(DataLoader, ARunWithOneSeedGivesTheSameNumbersWhateverLoads) {
  std::vector<torch::Tensor> runs;
  for (const int64_t num_workers : {0, 1, 3, 3, 3}) {
    torch::manual_seed(7);
    DataLoader loader(GlobalNoise(), {.batch_size = 2, .num_workers = num_workers});
    std::vector<torch::Tensor> numbers;
    for (int epoch = 0; epoch < 20; ++epoch) {
      for (const auto& batch : loader) numbers.push_back(torch::cat({batch.flatten(), torch::rand({100})}));
    }
    runs.push_back(torch::stack(numbers));
  }
  for (const auto& run : runs) EXPECT_TRUE(torch::equal(run, runs.front()));
}

/// Counts the threads that the process gets from a computation that is worth a team of them.
struct Computation {
  std::shared_ptr<std::atomic<int64_t>> new_threads = std::make_shared<std::atomic<int64_t>>(0);
  size_t size() const { return 2; }
  torch::Tensor get(size_t) {
    const int64_t before = threads();
    torch::ones({1 << 20}).sin_();
    *new_threads += threads() - before;
    return torch::ones({1});
  }
  static int64_t threads() { return std::ranges::distance(std::filesystem::directory_iterator("/proc/self/task")); }
};

TEST(DataLoader, AThreadThatLoadsComputesAlone) {
  const int before = torch::get_num_threads();
  torch::set_num_threads(4);
  Computation computation;
  DataLoader loader(computation, {.num_workers = 1});
  for (auto& batch : loader) EXPECT_EQ(batch.numel(), 1);
  torch::set_num_threads(before);
  EXPECT_EQ(*computation.new_threads, 0);
}

TEST(DataLoader, CallsTheHooksAroundEachWait) {
  std::string calls;
  LoaderPlace place;
  place.before_batch = [&calls] {
    calls += 'b';
    if (calls.size() > 8) throw std::runtime_error("stop");
  };
  place.after_batch = [&calls] { calls += 'a'; };
  DataLoader loader(Numbers(20), {.batch_size = 2}, place);
  EXPECT_THROW(
      {
        for ([[maybe_unused]] auto& batch : loader) calls += '.';
      },
      std::runtime_error);
  EXPECT_EQ(calls, "ba.ba.ba.b");
}

TEST(DataLoader, ADataSetThatCannotBeCopiedLoadsInOneThread) {
  struct Unique {
    std::unique_ptr<int> mark = std::make_unique<int>(1);
    size_t size() const { return 4; }
    torch::Tensor get(size_t row) { return torch::tensor(static_cast<int64_t>(row)); }
  };
  DataLoader loader(Unique{}, {.batch_size = 4});
  for (const torch::Tensor& rows : loader) EXPECT_TRUE(torch::equal(rows, torch::arange(4)));
  EXPECT_THROW(DataLoader(Unique{}, {.num_workers = 2}), ConfigError);
}

TEST(DataLoader, AnEmptyDataSetGivesNothing) {
  DataLoader loader(Numbers(0), {.batch_size = 4});
  EXPECT_EQ(loader.size(), 0);
  EXPECT_TRUE(labels_of(loader).empty());
}

}  // namespace
}  // namespace paceline
