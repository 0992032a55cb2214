#include "paceline/data/order/epoch_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <span>

namespace paceline::data {
namespace {

constexpr Shuffle kAll[] = {Shuffle::none, Shuffle::files, Shuffle::chunks, Shuffle::rows};

std::vector<ChunkSize> random_chunks(std::mt19937_64& random) {
  std::vector<ChunkSize> chunks(random() % 20);
  int64_t file = 0;
  for (ChunkSize& chunk : chunks) {
    chunk.rows = static_cast<int64_t>(random() % 30);  // some are empty
    chunk.bytes = chunk.rows * 100;
    chunk.file = random() % 3 == 0 ? ++file : file;
  }
  return chunks;
}

std::vector<RowPlace> all_of(const EpochOrder& order) {
  std::vector<RowPlace> rows;
  for (int64_t position = 0; position < order.rows(); ++position) rows.push_back(order.at(position));
  return rows;
}

// As the chunks list them.
std::vector<RowPlace> within(const EpochOrder& order, std::span<const ChunkSize> chunks, const Window& window) {
  std::vector<int64_t> counts;
  for (int64_t place = window.first_chunk; place < window.first_chunk + window.chunks; ++place) {
    counts.push_back(chunks[static_cast<size_t>(order.chunks()[static_cast<size_t>(place)])].rows);
  }
  std::vector<RowPlace> rows;
  for (const RowRun& run : runs_of(counts, order.mixed(window, counts), 0, window.rows)) {
    for (int64_t row = run.first; row < run.first + run.rows; ++row) rows.push_back({run.chunk, row});
  }
  return rows;
}

std::vector<RowPlace> in_sequence(std::span<const ChunkSize> chunks) {
  std::vector<RowPlace> rows;
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    for (int64_t row = 0; row < chunks[chunk].rows; ++row) rows.push_back({static_cast<int64_t>(chunk), row});
  }
  return rows;
}

TEST(EpochOrder, HasEveryRowOnce) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<ChunkSize> chunks = random_chunks(random);
    for (const Shuffle shuffle : kAll) {
      const EpochOrder order(chunks, {.shuffle = shuffle,
                                      .seed = static_cast<int64_t>(random()),
                                      .epoch = static_cast<int64_t>(random() % 5),
                                      .window_bytes = static_cast<int64_t>(random() % 10'000)});
      std::vector<RowPlace> rows = all_of(order);
      std::ranges::sort(rows, {}, [](const RowPlace& place) { return std::pair(place.chunk, place.row); });
      ASSERT_EQ(rows, in_sequence(chunks)) << "seed " << seed << " shuffle " << static_cast<int>(shuffle);
    }
  }
}

TEST(EpochOrder, WindowsFollowEachOtherAndHoldTheirRows) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<ChunkSize> chunks = random_chunks(random);
    const EpochOrder order(chunks, {.shuffle = Shuffle::rows, .window_bytes = 4000});
    int64_t position = 0;
    int64_t chunk = 0;
    for (size_t i = 0; i < order.windows().size(); ++i) {
      const Window& window = order.windows()[i];
      EXPECT_EQ(window.first, position);
      EXPECT_EQ(window.first_chunk, chunk);
      std::set<int64_t> inside(order.chunks().begin() + chunk, order.chunks().begin() + chunk + window.chunks);
      int64_t bytes = 0;
      for (const RowPlace& place : within(order, chunks, window)) {
        const RowPlace row{order.chunks()[static_cast<size_t>(window.first_chunk + place.chunk)], place.row};
        EXPECT_TRUE(inside.contains(row.chunk));
        EXPECT_EQ(row, order.at(position));
        EXPECT_EQ(order.window_of(position++), static_cast<int64_t>(i));
        bytes += 100;
      }
      const bool is_last = i + 1 == order.windows().size();
      EXPECT_TRUE(is_last || bytes >= 4000);
      EXPECT_LT(bytes, 4000 + 30 * 100) << "one chunk beyond at most";
      chunk += window.chunks;
    }
    EXPECT_EQ(position, order.rows());
  }
}

constexpr ChunkSize kChunks[] = {{3, 300, 0}, {3, 300, 0}, {3, 300, 1}, {3, 300, 1}, {3, 300, 2}, {3, 300, 2}};

TEST(EpochOrder, WithoutShuffleIsTheSources) {
  EXPECT_EQ(all_of(EpochOrder(kChunks, {.seed = 5, .epoch = 3})), in_sequence(kChunks));
}

TEST(EpochOrder, ShuffledFilesKeepTheirChunksInSequence) {
  std::set<std::vector<int64_t>> seen;
  for (int64_t epoch = 0; epoch < 100; ++epoch) {
    const EpochOrder order(kChunks, {.shuffle = Shuffle::files, .epoch = epoch});
    for (size_t i = 0; i < 6; i += 2) {
      EXPECT_EQ(order.chunks()[i] % 2, 0);
      EXPECT_EQ(order.chunks()[i + 1], order.chunks()[i] + 1);
    }
    seen.insert(order.chunks());
  }
  EXPECT_EQ(seen.size(), 6u) << "all orders of three files";
}

TEST(EpochOrder, ShuffledChunksKeepTheirRowsInSequence) {
  const EpochOrder order(kChunks, {.shuffle = Shuffle::chunks, .seed = 1});
  EXPECT_FALSE(std::ranges::is_sorted(order.chunks()));
  for (int64_t position = 0; position < order.rows(); ++position) EXPECT_EQ(order.at(position).row, position % 3);
}

TEST(EpochOrder, SeedAndEpochGiveOtherOrders) {
  const auto with = [](int64_t seed, int64_t epoch) {
    return all_of(EpochOrder(kChunks, {.shuffle = Shuffle::rows, .seed = seed, .epoch = epoch}));
  };
  EXPECT_EQ(with(1, 1), with(1, 1));
  EXPECT_NE(with(1, 1), with(1, 2));
  EXPECT_NE(with(1, 1), with(2, 1));
  EXPECT_NE(with(1, 2), with(2, 1)) << "not their sum";
}

TEST(EpochOrder, WindowsOfOneSizeAreMixedDifferently) {
  const std::vector<ChunkSize> chunks(50, {.rows = 20, .bytes = 100});
  const EpochOrder order(chunks, {.shuffle = Shuffle::rows, .window_bytes = 1});
  std::set<std::vector<int64_t>> mixes;
  for (const Window& window : order.windows()) {
    std::vector<int64_t> rows;
    for (const RowPlace& place : within(order, chunks, window)) rows.push_back(place.row);
    mixes.insert(rows);
  }
  EXPECT_EQ(mixes.size(), 50u);
}

// Rows sorted by label, ten labels, windows of 16 of 64 chunks: a batch of 256 holds nearly the labels of its window.
TEST(EpochOrder, MixesRowsThatAreSortedByLabel) {
  const std::vector<ChunkSize> chunks(640, {.rows = 100, .bytes = 100});
  const EpochOrder order(chunks, {.shuffle = Shuffle::rows, .seed = 3, .window_bytes = 64 * 100});
  double entropy = 0;
  const int64_t batches = order.rows() / 256;
  for (int64_t batch = 0; batch < batches; ++batch) {
    std::map<int64_t, double> labels;
    for (int64_t i = 0; i < 256; ++i) ++labels[order.at(batch * 256 + i).chunk / 64];
    for (const auto& [label, count] : labels) entropy -= count / 256 * std::log2(count / 256);
  }
  const double uniform = std::log2(10) - 9 / (2 * 256 * std::log(2));  // of a uniform sample, by Miller and Madow
  EXPECT_GT(entropy / static_cast<double>(batches), 0.96 * uniform);
}

TEST(EpochOrder, OfNothingIsEmpty) {
  const std::vector<ChunkSize> empty = {{0, 0, 0}, {0, 0, 1}};
  for (const Shuffle shuffle : kAll) {
    EXPECT_EQ(EpochOrder({}, {.shuffle = shuffle}).rows(), 0);
    EXPECT_EQ(EpochOrder(empty, {.shuffle = shuffle}).windows().size(), 0u);
  }
}

}  // namespace
}  // namespace paceline::data
