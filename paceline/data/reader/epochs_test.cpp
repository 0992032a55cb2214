#include "paceline/data/reader/epochs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

#include "paceline/data/executor/read_pool.h"
#include "paceline/data/operator/columns.h"
#include "paceline/data/plan/edit.h"
#include "paceline/data/testing_internal.h"
#include "paceline/testing/in_fork.h"

namespace paceline::data {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<DatasetReader> shuffled_numbers(int64_t rows, int64_t seed = 7) {
  Plan plan{.kind = "numbers", .options = {{"rows", rows}}};
  Plan shuffled{.kind = "shuffle",
                .options = {{"what", "rows"}, {"seed", seed}},
                .inputs = {std::make_shared<Plan>(std::move(plan))}};
  return local_reader(open(shuffled).ValueOrDie());
}

using Rows = std::vector<int64_t>;

Rows first_numbers(size_t rows) {
  Rows numbers(rows);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

Rows next_rows(RankBatches& batches) {
  const auto batch = batches.next().ValueOrDie();
  return batch == nullptr ? Rows() : values_of(*batch);
}

Rows rows_left(RankBatches& batches) {
  Rows rest;
  for (Rows rows = next_rows(batches); !rows.empty(); rows = next_rows(batches)) {
    rest.insert(rest.end(), rows.begin(), rows.end());
  }
  return rest;
}

Rows rows_left(Epochs& epochs, const EpochOptions& options = {.batch_size = 4}) {
  return rows_left(*epochs.begin(options).ValueOrDie());
}

// A train loop's, which says itself what is void.
struct Steps : CountedSteps {
  void begin() override { is_void_ = false; }
  bool is_void() const override { return is_void_; }
  void applied() override { ++applied_; }
  bool is_void_ = false;
  int64_t applied_ = 0;
};

TEST(Epochs, RowsThatAreSkippedAreThoseOfMixedBuffers) {
  const EpochOptions options{.batch_size = 5, .local_shuffle_buffer_size = 10};
  Epochs whole(shuffled_numbers(43), {});
  const Rows all = rows_left(whole, options);
  for (int64_t skipped = 0; skipped <= 45; ++skipped) {
    Epochs epochs(shuffled_numbers(43), {});
    ASSERT_TRUE(epochs.skip(skipped / 3).ok());
    ASSERT_TRUE(epochs.skip(skipped - skipped / 3).ok());
    ASSERT_EQ(rows_left(epochs, options), Rows(all.begin() + std::min<int64_t>(skipped, 43), all.end())) << skipped;
  }
}

TEST(Epochs, EachIterationIsTheNextEpoch) {
  Epochs epochs(shuffled_numbers(20), {});
  const Rows first = rows_left(epochs);
  EXPECT_EQ(epochs.epoch(), 1);
  (void)next_rows(*epochs.begin({.batch_size = 4}).ValueOrDie());  // left early
  const Rows third = rows_left(epochs);
  EXPECT_EQ(third.size(), 20u);
  EXPECT_NE(first, third);
  epochs.set_epoch(0);
  EXPECT_EQ(rows_left(epochs), first);
  EXPECT_EQ(epochs.rows().ValueOrDie(), 20);
}

// A train loop may say where it goes on while it still iterates.
TEST(Epochs, AnIterationThatEndsLeavesWhatWasChosenForTheNext) {
  Epochs epochs(shuffled_numbers(20), {});
  auto batches = epochs.begin({.batch_size = 4}).ValueOrDie();
  (void)next_rows(*batches);
  epochs.set_epoch(5);
  const Json chosen = epochs.state().ValueOrDie();
  (void)rows_left(*batches);
  EXPECT_EQ(epochs.epoch(), 5);
  EXPECT_EQ(epochs.state().ValueOrDie(), chosen);
  batches = epochs.begin({.batch_size = 4}).ValueOrDie();
  ASSERT_TRUE(epochs.skip(8).ok());
  const Json skipped = epochs.state().ValueOrDie();
  (void)rows_left(*batches);
  EXPECT_EQ(epochs.epoch(), 6);
  EXPECT_EQ(epochs.state().ValueOrDie(), skipped);
  EXPECT_EQ(rows_left(epochs).size(), 12u);
}

// The plan of a program that draws its seed, as it is after a restart.
TEST(Epochs, AStateBringsTheSeedThatNobodyHasChosen) {
  const auto numbers = std::make_shared<const Plan>(Plan{.kind = "numbers", .options = {{"rows", 40}}});
  const auto reader = [](const SharedPlan& plan) { return local_reader(open(*plan).ValueOrDie()); };
  Epochs before(reader(shuffled_plan(numbers, "rows", std::nullopt)), {});
  Rows seen = next_rows(*before.begin({.batch_size = 15}).ValueOrDie());
  const Json state = before.state().ValueOrDie();
  before.set_epoch(1);
  const Rows next = rows_left(before);

  Epochs after(reader(shuffled_plan(numbers, "rows", std::nullopt)), {});
  EXPECT_NE(rows_left(after), next);
  ASSERT_TRUE(after.load_state(state).ok());
  EXPECT_EQ(after.state().ValueOrDie(), state);
  const Rows rest = rows_left(after);
  seen.insert(seen.end(), rest.begin(), rest.end());
  std::ranges::sort(seen);
  EXPECT_EQ(seen, first_numbers(40));
  EXPECT_EQ(rows_left(after), next);  // later epochs are those of the seed, too
  ASSERT_TRUE(after.load_state(state).ok());
  ASSERT_TRUE(after.skip(25).ok());
  EXPECT_EQ(rows_left(after), Rows());

  EXPECT_THAT(Epochs(shuffled_numbers(40), {}).load_state(state).message(), HasSubstr("its seed is"));
  const auto part = [&] { return limited_plan(shuffled_plan(numbers, "rows", std::nullopt), 5).ValueOrDie(); };
  const Json of_part = Epochs(reader(part()), {}).state().ValueOrDie();
  EXPECT_THAT(Epochs(reader(part()), {}).load_state(of_part).message(), HasSubstr("give them one"));
}

TEST(Epochs, AStateGoesOnAtAnyWorldSize) {
  for (const std::optional<int64_t> buffer : {std::optional<int64_t>(), std::optional<int64_t>(8)}) {
    const EpochOptions options{.batch_size = 3, .local_shuffle_buffer_size = buffer};
    const auto reader = shuffled_numbers(40);
    Epochs whole(reader, {});
    const Rows all = rows_left(whole, options);
    Epochs first(reader, {.rank = 0, .world_size = 2});
    Epochs second(reader, {.rank = 1, .world_size = 2});
    Rows seen;
    {
      auto a = first.begin(options).ValueOrDie();
      auto b = second.begin(options).ValueOrDie();
      for (int step = 0; step < 3; ++step) {
        for (auto* batches : {a.get(), b.get()}) {
          const Rows rows = next_rows(*batches);
          seen.insert(seen.end(), rows.begin(), rows.end());
        }
      }
    }
    const Json state = first.state().ValueOrDie();
    EXPECT_EQ(state, second.state().ValueOrDie());
    EXPECT_LT(state.dump().size(), 1024u);
    Epochs resumed(shuffled_numbers(40), {});
    ASSERT_TRUE(resumed.load_state(state).ok());
    const Rows rest = rows_left(resumed, options);
    seen.insert(seen.end(), rest.begin(), rest.end());
    EXPECT_EQ(resumed.epoch(), 1);
    if (!buffer) {
      EXPECT_EQ(seen, all);
    }
    std::ranges::sort(seen);
    EXPECT_EQ(seen, first_numbers(40));
  }
}

TEST(Epochs, AStateOfAnotherDatasetIsRefused) {
  Epochs epochs(shuffled_numbers(20), {});
  const Json state = epochs.state().ValueOrDie();
  EXPECT_THAT(Epochs(shuffled_numbers(20, 8), {}).load_state(state).message(), HasSubstr("another dataset: its "));
  EXPECT_THAT(Epochs(shuffled_numbers(21), {}).load_state(state).message(), HasSubstr("its fingerprint is"));
  const auto said = [&](const char* name, const Json& value) {
    Json changed = state;
    changed[name] = value;
    return epochs.load_state(changed).message();
  };
  EXPECT_THAT(said("version", 2), HasSubstr("the state has version 2; this is 1"));
  const Json no_numbers[] = {nullptr, "1", true, 1.5, std::nan(""), Json::array(), uint64_t{1} << 63};
  for (const Json& value : no_numbers) EXPECT_THAT(said("row", value), HasSubstr("no state of a dataset")) << value;
  EXPECT_THAT(said("fingerprint", -1), HasSubstr("fingerprint is -1"));
  EXPECT_THAT(said("epoch", -1), HasSubstr("epoch is -1; wanted: a number from 0"));
  EXPECT_THAT(said("epoch", std::numeric_limits<int64_t>::max()), HasSubstr("epoch is 9223372036854775807"));
  for (const auto& item : state.items()) {
    Json without = state;
    without.erase(item.key());
    EXPECT_THAT(epochs.load_state(without).message(), HasSubstr(item.key() + " is missing"));
  }
  EXPECT_THAT(epochs.load_state(nullptr).message(), HasSubstr("no state of a dataset: null"));
}

TEST(Epochs, SkippedRowsAreThoseOfAllRanks) {
  const auto reader = shuffled_numbers(20);
  Epochs whole(reader, {});
  const Rows all = rows_left(whole);
  Epochs half(reader, {.rank = 1, .world_size = 2});
  ASSERT_TRUE(half.skip(12).ok());
  EXPECT_EQ(rows_left(half), Rows(all.begin() + 16, all.end()));
}

TEST(Epochs, AStateThatRowsAreSkippedOfStillWaitsForItsEpoch) {
  const auto reader = shuffled_numbers(20);
  Epochs whole(reader, {});
  const Rows all = rows_left(whole);
  Epochs before(reader, {});
  const auto batches = before.begin({.batch_size = 4}).ValueOrDie();
  (void)next_rows(*batches);
  Epochs epochs(reader, {});
  ASSERT_TRUE(epochs.load_state(before.state().ValueOrDie()).ok());
  ASSERT_TRUE(epochs.skip(3).ok());
  epochs.set_epoch(0);
  EXPECT_EQ(rows_left(epochs), Rows(all.begin() + 7, all.end()));
}

TEST(Epochs, AVoidStepRepeatsItsBatch) {
  const auto reader = shuffled_numbers(12);
  Epochs whole(reader, {});
  const Rows all = rows_left(whole);
  const auto steps = std::make_shared<Steps>();
  Epochs epochs(reader, {});
  {
    const auto batches = epochs.begin({.batch_size = 4}, steps).ValueOrDie();
    const Rows first = next_rows(*batches);
    const Rows second = next_rows(*batches);
    const Json counted = epochs.state().ValueOrDie();
    EXPECT_EQ(counted.at("rows"), 8);
    steps->is_void_ = true;
    EXPECT_EQ(epochs.state().ValueOrDie().at("rows"), 4);
    EXPECT_EQ(next_rows(*batches), second);
    EXPECT_EQ(epochs.state().ValueOrDie(), counted);
    (void)next_rows(*batches);
    steps->is_void_ = true;  // also the last one
    EXPECT_EQ(next_rows(*batches), Rows(all.begin() + 8, all.end()));
    EXPECT_EQ(next_rows(*batches), Rows());
    EXPECT_EQ(steps->applied_, 3);
    EXPECT_EQ(epochs.epoch(), 1);
  }
  {
    const auto batches = epochs.begin({.batch_size = 4}, steps).ValueOrDie();
    (void)next_rows(*batches);
    steps->is_void_ = true;  // and then the loop is left
  }
  EXPECT_EQ(epochs.state().ValueOrDie().at("rows"), 0);
}

// Tells what is asked of a reader.
class Observed : public DatasetReader {
 public:
  explicit Observed(std::shared_ptr<DatasetReader> reader) : reader_(std::move(reader)) {}
  arrow::Result<DatasetFacts> facts() override { return reader_->facts(); }
  arrow::Result<std::shared_ptr<arrow::Schema>> schema() override { return reader_->schema(); }
  arrow::Result<std::unique_ptr<RankBatches>> batches(const BatchRequest& request) override {
    asked.emplace_back(request.epoch, request.options.begins_early);
    return reader_->batches(request);
  }
  arrow::Result<StreamState> skipped(int64_t epoch, std::optional<int64_t> seed, int64_t rows,
                                     const StreamState& from) override {
    return reader_->skipped(epoch, seed, rows, from);
  }
  arrow::Result<DatasetFigures> statistics() override { return reader_->statistics(); }

  std::vector<std::pair<int64_t, bool>> asked;  // epochs, and whether early

 private:
  const std::shared_ptr<DatasetReader> reader_;
};

using Asked = std::vector<std::pair<int64_t, bool>>;

TEST(Epochs, TheNextOneIsBegunBeforeThisOneEnds) {
  Epochs plain(shuffled_numbers(20), {});
  const EpochOptions options{.batch_size = 4};
  const Rows first = rows_left(plain, {.batch_size = 4, .begins_next = false});
  const Rows second = rows_left(plain, options);
  const auto reader = std::make_shared<Observed>(shuffled_numbers(20));
  Epochs epochs(reader, {});
  EXPECT_EQ(rows_left(epochs, options), first);
  EXPECT_EQ(reader->asked, (Asked{{0, false}, {1, true}}));
  epochs.set_epoch(1);
  EXPECT_EQ(rows_left(epochs, options), second);
  EXPECT_EQ(reader->asked, (Asked{{0, false}, {1, true}, {2, true}}));
  epochs.set_epoch(1);  // not the one that is begun
  EXPECT_EQ(rows_left(epochs, options), second);
  EXPECT_EQ(reader->asked.size(), 5u);
  (void)rows_left(epochs, {.batch_size = 5});  // nor as it is begun
  EXPECT_EQ(reader->asked, (Asked{{0, false}, {1, true}, {2, true}, {1, false}, {2, true}, {2, false}, {3, true}}));
}

TEST(Epochs, TheNextOneIsNotBegunWhereNobodyMayWantIt) {
  const auto asked = [](std::shared_ptr<DatasetReader> of, const EpochOptions& options) {
    const auto reader = std::make_shared<Observed>(std::move(of));
    Epochs epochs(reader, {});
    (void)rows_left(epochs, options);
    return reader->asked;
  };
  EXPECT_EQ(asked(shuffled_numbers(20), {.begins_next = false}), (Asked{{0, false}}));
  EXPECT_EQ(asked(shuffled_numbers(20), {.prefetch_batches = 0}), (Asked{{0, false}}));
  EXPECT_EQ(asked(shuffled_numbers(20), {.threads = 0}), (Asked{{0, false}}));
  EXPECT_EQ(asked(shuffled_numbers(20), {.batch_size = 4, .local_shuffle_buffer_size = 8}), (Asked{{0, false}}))
      << "a second buffer of rows would be there";
  Plan numbers{.kind = "numbers", .options = {{"rows", 5}}};
  Plan function{.kind = "function", .inputs = {std::make_shared<Plan>(std::move(numbers))}};
  function.function = select_columns({"id"});
  EXPECT_EQ(asked(local_reader(open(function).ValueOrDie()), {}), (Asked{{0, false}}));
}

TEST(Epochs, WhatIsBegunCanBeTaken) {
  Epochs epochs(shuffled_numbers(20), {});
  (void)rows_left(epochs);
  EXPECT_NE(epochs.take_begun(), nullptr);
  EXPECT_EQ(epochs.take_begun(), nullptr);
  EXPECT_EQ(rows_left(epochs).size(), 20u);
}

// A fork has none of its parent's threads, and may find what they had in their hands locked.
TEST(Epochs, AForkForgetsWhatItsParentReadsAndReadsItself) {
  if (!testing::kForksBesideThreadsMayAllocate) GTEST_SKIP() << "the fork reads, its parent's threads allocate";
  const auto reader = shuffled_numbers(20'000);
  const EpochOptions options{.batch_size = 100};
  const auto pool = shared_pool(static_cast<int>(options.threads), options.read_ahead_bytes);
  const Rows all = [&] {
    Epochs whole(reader, {});
    return rows_left(whole, options);
  }();
  Epochs epochs(reader, {});
  auto batches = epochs.begin(options).ValueOrDie();
  auto later = epochs.begin(options).ValueOrDie();
  std::ignore = next_rows(*later);
  for (int step = 0; step < 20; ++step) {
    std::ignore = next_rows(*batches);
    std::unique_lock lock(pool->ledger()->mutex(), std::defer_lock);
    if (step % 2 == 0) lock.lock();
    EXPECT_TRUE(testing::holds_in_fork([&] {
      if (!batches->next().status().IsInvalid()) return false;
      batches.reset();
      epochs.set_epoch(0);
      return rows_left(epochs, options) == all;
    }));
  }
  EXPECT_EQ(rows_left(*batches).size(), all.size() - 2000);
  EXPECT_EQ(rows_left(*later).size(), all.size() - 100);
}

TEST(Epochs, NumbersThatAreNotAllowedAreErrors) {
  const auto message = [](const EpochOptions& options) { return options.validate().message(); };
  EXPECT_THAT(message({.batch_size = 0}), HasSubstr("batch_size is 0; allowed: a number of rows from 1"));
  EXPECT_THAT(message({.prefetch_batches = -1}), HasSubstr("prefetch_batches is -1"));
  EXPECT_THAT(message({.batch_size = std::nullopt, .local_shuffle_buffer_size = 5}), HasSubstr("needs a batch_size"));
}

TEST(Epochs, PlacesThatAreNotInTheEpochAreErrors) {
  Epochs epochs(shuffled_numbers(20), {});
  const Json state = epochs.state().ValueOrDie();
  const std::map<std::string, int64_t> wrong_numbers = {
      {"window", -1}, {"row", -1}, {"rows", -1}, {"buffer", -1}, {"done", 1}};
  for (const auto& [name, value] : wrong_numbers) {
    Json wrong = state;
    wrong[name] = value;
    ASSERT_TRUE(epochs.load_state(wrong).ok());
    EXPECT_THAT(epochs.begin({}).status().message(), HasSubstr("no such place in the epoch")) << name;
  }
  const Json more_wrong[] = {{{"buffer_rows", 30}, {"done", 30}},  // there are 20
                             {{"row", 1'000'000}},
                             {{"row", 21}, {"rows", 21}},
                             {{"row", 5}},
                             {{"rows", 5}},
                             {{"window", 1}},
                             {{"window", 1}, {"rows", 20}, {"done", 1}, {"buffer_rows", 5}}};
  for (const Json& changes : more_wrong) {
    Json wrong = state;
    wrong.update(changes);
    ASSERT_TRUE(epochs.load_state(wrong).ok());
    EXPECT_THAT(epochs.begin({}).status().message(), HasSubstr("no such place in the epoch")) << changes;
    EXPECT_THAT(epochs.skip(1).message(), HasSubstr("no such place in the epoch")) << changes;
  }
  ASSERT_TRUE(epochs.load_state(state).ok());
  EXPECT_THAT(epochs.skip(-1).message(), HasSubstr("skip() of -1 rows"));
  EXPECT_EQ(rows_left(epochs).size(), 20U);
}

// Where rows are not counted before they are read, the row of a state is looked at then.
TEST(Epochs, ARowThatAReadWindowLacksIsAnError) {
  const std::shared_ptr<const Source> numbers =
      memory_source(numbers_of({})->schema(), {numbers_of(first_numbers(20))}).ValueOrDie();
  const Plan plan{.kind = "source", .source = std::make_shared<OddRows>(numbers)};
  Epochs epochs(local_reader(open(plan).ValueOrDie()), {});
  Json state = epochs.state().ValueOrDie();
  state["rows"] = state["row"] = 15;  // of 10
  ASSERT_TRUE(epochs.load_state(state).ok());
  EXPECT_THAT(epochs.begin({}).ValueOrDie()->next().status().message(), HasSubstr("no such place in the epoch"));
}

}  // namespace
}  // namespace paceline::data
