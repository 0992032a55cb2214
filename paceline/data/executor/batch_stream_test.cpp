#include "paceline/data/executor/batch_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "paceline/data/testing_internal.h"

namespace paceline::data {
namespace {

struct Scene {
  std::shared_ptr<const Source> source;
  OrderOptions order;
  BatchStreamOptions batches;
  int64_t buffer_rows = 0;
  int threads = 2;
  std::shared_ptr<Windows> windows;  // of all streams
};

// A source that counts its rows, or one that does not, in any order, with batches of any kind.
Scene random_scene(std::mt19937_64& random) {
  Scene scene;
  scene.source = random_source(random);
  if (random() % 2 == 0) scene.source = std::make_shared<OddRows>(scene.source);
  scene.order = {.shuffle = static_cast<Shuffle>(random() % 4),
                 .seed = static_cast<int64_t>(random() % 100),
                 .window_bytes = static_cast<int64_t>(random() % 1500)};
  scene.batches = {.batch_size = static_cast<int64_t>(1 + random() % 20),
                   .prefetch_batches = random() % 4 == 0 ? 2 : 0,
                   .local_shuffle_key = random()};
  scene.threads = static_cast<int>(random() % 3);
  if (random() % 2 == 0) scene.buffer_rows = static_cast<int64_t>(1 + random() % 60);
  return scene;
}

std::unique_ptr<BatchStream> stream_of(Scene& scene, int64_t rank, int64_t world_size, Equal equal,
                                       StreamState from = {}) {
  BatchStreamOptions options = scene.batches;
  options.rank = rank;
  options.world_size = world_size;
  options.equal = equal;
  from.buffer_rows = scene.buffer_rows;
  if (scene.windows == nullptr) {
    scene.windows = own_windows(scene.source, EpochOrder(scene.source->chunks(), scene.order),
                                {.threads = scene.threads, .read_ahead_bytes = 1000});
  }
  return std::make_unique<BatchStream>(scene.windows, options, from);
}

std::vector<std::vector<int64_t>> rest_of(BatchStream& stream) {
  std::vector<std::vector<int64_t>> batches;
  while (const auto batch = stream.next().ValueOrDie()) batches.push_back(values_of(*batch));
  return batches;
}

// What all ranks get, in the order of steps and ranks.
std::vector<int64_t> joined(const std::vector<std::vector<std::vector<int64_t>>>& ranks) {
  std::vector<int64_t> all;
  for (size_t step = 0; step < ranks.front().size(); ++step) {
    for (const auto& rank : ranks) {
      if (step < rank.size()) all.insert(all.end(), rank[step].begin(), rank[step].end());
    }
  }
  return all;
}

TEST(BatchStream, RanksShareOneStreamWhateverTheirNumber) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    std::mt19937_64 random(seed);
    Scene scene = random_scene(random);
    std::vector<int64_t> alone;
    for (const auto& batch : rest_of(*stream_of(scene, 0, 1, Equal::uneven))) {
      alone.insert(alone.end(), batch.begin(), batch.end());
    }
    std::vector<int64_t> wanted;  // of every chunk
    for (size_t chunk = 0; chunk < scene.source->chunks().size(); ++chunk) {
      const auto batch = scene.source->read(static_cast<int64_t>(chunk), 0).ValueOrDie();
      for (const int64_t value : values_of(*batch)) wanted.push_back(value);
    }
    std::vector<int64_t> sorted = alone;
    std::ranges::sort(sorted);
    ASSERT_EQ(sorted, wanted) << "seed " << seed << ": every row once";

    for (const int64_t world_size : {2, 3, 5}) {
      for (const Equal equal : {Equal::uneven, Equal::drop, Equal::repeat, Equal::pad}) {
        std::vector<std::vector<std::vector<int64_t>>> ranks;
        for (int64_t rank = 0; rank < world_size; ++rank) {
          ranks.push_back(rest_of(*stream_of(scene, rank, world_size, equal)));
          if (equal != Equal::uneven) {
            ASSERT_EQ(ranks.back().size(), ranks.front().size()) << "seed " << seed;
          }
          for (size_t step = 0; step + 1 < ranks.back().size(); ++step) {
            ASSERT_EQ(ranks.back()[step].size(), static_cast<size_t>(scene.batches.batch_size))
                << "seed " << seed << ": no short batch in mid-stream";
          }
        }
        std::vector<int64_t> all = joined(ranks);
        const auto difference = static_cast<int64_t>(all.size()) - static_cast<int64_t>(alone.size());
        ASSERT_LT(std::abs(difference), world_size) << "seed " << seed;
        ASSERT_TRUE(equal != Equal::uneven || difference == 0) << "seed " << seed;
        ASSERT_TRUE(equal != Equal::drop || difference <= 0) << "seed " << seed;
        ASSERT_TRUE(difference < 0 || std::equal(alone.begin(), alone.end(), all.begin())) << "seed " << seed;
      }
    }
  }
}

TEST(BatchStream, GoesOnWithTheNextRowAtAnyWorldSize) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    std::mt19937_64 random(seed);
    Scene scene = random_scene(random);
    const auto before = static_cast<int64_t>(1 + random() % 3);
    const auto after = static_cast<int64_t>(1 + random() % 3);
    const auto alone = rest_of(*stream_of(scene, 0, 1, Equal::uneven));
    std::vector<int64_t> wanted;
    for (const auto& batch : alone) wanted.insert(wanted.end(), batch.begin(), batch.end());

    const auto stream = stream_of(scene, before - 1, before, Equal::uneven);
    StreamState state;
    for (uint64_t steps = random() % 5; steps > 0; --steps) {
      if (stream->next().ValueOrDie() == nullptr) break;
      state = stream->state();
    }
    ASSERT_LE(state.rows(), static_cast<int64_t>(wanted.size()));
    const auto done = static_cast<size_t>(state.rows());
    scene.batches.batch_size = static_cast<int64_t>(1 + random() % 20);
    std::vector<std::vector<std::vector<int64_t>>> ranks;
    for (int64_t rank = 0; rank < after; ++rank) {
      ranks.push_back(rest_of(*stream_of(scene, rank, after, Equal::uneven, state)));
    }
    ASSERT_EQ(joined(ranks), std::vector<int64_t>(wanted.begin() + static_cast<int64_t>(done), wanted.end()))
        << "seed " << seed;
  }
}

TEST(BatchStream, DropLastAndWholeWindows) {
  std::mt19937_64 random(7);
  Scene scene{.source = random_source(random, 10), .batches = {.batch_size = 16, .drop_last = true}};
  for (const auto& batch : rest_of(*stream_of(scene, 0, 1, Equal::uneven))) EXPECT_EQ(batch.size(), 16u);
  scene.batches = {.batch_size = 0};
  size_t chunk = 0;
  for (const auto& batch : rest_of(*stream_of(scene, 0, 1, Equal::uneven))) {
    while (scene.source->chunks()[chunk].rows == 0) ++chunk;
    EXPECT_EQ(batch.size(), static_cast<size_t>(scene.source->chunks()[chunk++].rows));
  }
}

TEST(BatchStream, PaddingIsMarked) {
  Scene scene{.batches = {.batch_size = 2}};
  scene.source = memory_source(numbers_of({})->schema(), {numbers_of({1, 2, 3})}).ValueOrDie();
  const auto batch = stream_of(scene, 1, 2, Equal::pad)->next().ValueOrDie();
  EXPECT_EQ(values_of(*batch), (std::vector<int64_t>{3, 1}));
  const auto& padding = static_cast<const arrow::BooleanArray&>(*batch->GetColumnByName(kPaddingColumn));
  EXPECT_FALSE(padding.Value(0));
  EXPECT_TRUE(padding.Value(1));
}

}  // namespace
}  // namespace paceline::data
