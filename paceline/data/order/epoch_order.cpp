#include "paceline/data/order/epoch_order.h"

#include <algorithm>
#include <numeric>

namespace paceline::data {
namespace {

std::vector<int64_t> permuted(const std::vector<int64_t>& numbers, uint64_t key) {
  const Permutation permutation(static_cast<int64_t>(numbers.size()), key);
  std::vector<int64_t> result(numbers.size());
  for (size_t place = 0; place < numbers.size(); ++place) {
    result[place] = numbers[static_cast<size_t>(permutation[static_cast<int64_t>(place)])];
  }
  return result;
}

std::vector<int64_t> with_files_permuted(std::span<const ChunkSize> chunks, const std::vector<int64_t>& numbers,
                                         uint64_t key) {
  std::vector<int64_t> begins;  // of each file, in `numbers`
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto file = [&](size_t place) { return chunks[static_cast<size_t>(numbers[place])].file; };
    if (i == 0 || file(i) != file(i - 1)) begins.push_back(static_cast<int64_t>(i));
  }
  std::vector<int64_t> files(begins.size());
  std::iota(files.begin(), files.end(), 0);
  begins.push_back(static_cast<int64_t>(numbers.size()));
  std::vector<int64_t> result;
  for (const int64_t file : permuted(files, key)) {
    const auto at = static_cast<size_t>(file);
    result.insert(result.end(), numbers.begin() + begins[at], numbers.begin() + begins[at + 1]);
  }
  return result;
}

}  // namespace

EpochOrder::EpochOrder(std::span<const ChunkSize> chunks, const OrderOptions& options)
    : key_(mix(static_cast<uint64_t>(options.seed), static_cast<uint64_t>(options.epoch))),
      mixes_rows_(options.shuffle == Shuffle::rows) {
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i].rows > 0) chunks_.push_back(static_cast<int64_t>(i));
  }
  if (options.shuffle == Shuffle::files) {
    chunks_ = with_files_permuted(chunks, chunks_, key_);
  } else if (options.shuffle != Shuffle::none) {
    chunks_ = permuted(chunks_, key_);
  }
  int64_t bytes = 0;
  for (size_t place = 0; place < chunks_.size(); ++place) {
    const ChunkSize& chunk = chunks[static_cast<size_t>(chunks_[place])];
    if (windows_.empty() || !mixes_rows_ || bytes >= options.window_bytes) {
      windows_.push_back({.first = rows_, .first_chunk = static_cast<int64_t>(place)});
      bytes = 0;
    }
    counts_.push_back(chunk.rows);
    rows_ += chunk.rows;
    bytes += chunk.bytes;
    windows_.back().rows += chunk.rows;
    ++windows_.back().chunks;
  }
}

int64_t EpochOrder::window_of(int64_t position) const {
  const auto after = std::ranges::upper_bound(windows_, position, {}, &Window::first);
  return std::distance(windows_.begin(), after) - 1;
}

int64_t EpochOrder::window_with(int64_t place) const {
  const auto after = std::ranges::upper_bound(windows_, place, {}, &Window::first_chunk);
  return std::distance(windows_.begin(), after) - 1;
}

RowPlace EpochOrder::at(int64_t position) const {
  const Window& window = windows_[static_cast<size_t>(window_of(position))];
  const std::span counts(counts_.data() + window.first_chunk, static_cast<size_t>(window.chunks));
  const RowRun run = runs_of(counts, mixed(window, counts), position - window.first, 1).front();
  return {chunks_[static_cast<size_t>(window.first_chunk + run.chunk)], run.first};
}

std::vector<uint32_t> EpochOrder::mixed(const Window& window, std::span<const int64_t> counts) const {
  if (!mixes_rows_) return {};
  return mix_of(window, std::accumulate(counts.begin(), counts.end(), int64_t{0})).order(counts);
}

// The key is that of the window's place: two windows of one size are not mixed alike.
WindowMix EpochOrder::mix_of(const Window& window, int64_t rows) const {
  return {mix(key_, static_cast<uint64_t>(window.first_chunk) + 1), rows};
}

std::vector<RowRun> runs_of(std::span<const int64_t> counts, std::span<const uint32_t> mixed, int64_t first,
                            int64_t rows) {
  std::vector<int64_t> ends(counts.size());
  std::partial_sum(counts.begin(), counts.end(), ends.begin());
  std::vector<RowRun> runs;
  runs.reserve(mixed.empty() ? 2 : static_cast<size_t>(rows));
  for (int64_t next = first; next < first + rows;) {
    const int64_t row = mixed.empty() ? next : int64_t{mixed[static_cast<size_t>(next)]};
    const auto chunk = std::ranges::upper_bound(ends, row);
    const int64_t of_chunk = row - (chunk == ends.begin() ? 0 : *std::prev(chunk));
    const int64_t count = mixed.empty() ? std::min(first + rows - next, *chunk - row) : 1;
    runs.push_back({chunk - ends.begin(), of_chunk, count});
    next += count;
  }
  return runs;
}

}  // namespace paceline::data
