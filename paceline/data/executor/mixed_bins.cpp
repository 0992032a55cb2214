#include "paceline/data/executor/mixed_bins.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "paceline/data/memory/counted_batch.h"
#include "paceline/data/rows/row_copies.h"
#include "paceline/data/rows/row_kernels_internal.h"

namespace paceline::data {
namespace {

template <typename Place>
void deal_bytes(const uint8_t* source, uint8_t* target, std::span<const Place> places, int64_t width,
                const uint8_t* next) {
  const bool is_usual =
      with_row_type(width, [&]<typename Row>(Row) { deal_rows<Row, Place>(source, target, places, next); });
  if (is_usual) return;
  const auto bytes = static_cast<size_t>(width);
  for (size_t i = 0; i < places.size(); ++i) std::memcpy(target + places[i] * bytes, source + i * bytes, bytes);
}

void take_bytes(const uint8_t* source, uint8_t* target, std::span<const uint16_t> places, int64_t width) {
  const bool is_usual = with_row_type(width, [&]<typename Row>(Row) { take_rows<Row>(source, target, places); });
  if (is_usual) return;
  const auto bytes = static_cast<size_t>(width);
  for (size_t i = 0; i < places.size(); ++i) std::memcpy(target + i * bytes, source + places[i] * bytes, bytes);
}

// The batch's rows, each at its place. A column of the batch goes as soon as it is dealt, where nobody else has it: the
// next but one is dealt into its memory.
template <typename Place>
arrow::Result<std::shared_ptr<arrow::RecordBatch>> at_places(std::shared_ptr<arrow::RecordBatch> batch,
                                                             std::span<const Place> places, arrow::MemoryPool* pool) {
  const std::shared_ptr<arrow::Schema> schema = batch->schema();
  const int64_t count = batch->num_rows();
  arrow::ArrayVector arrays = batch->columns();
  batch.reset();
  std::vector<Leaf> leaves;
  std::vector<const uint8_t*> sources;  // of columns of plain bytes
  for (const auto& array : arrays) {
    leaves.push_back(leaf_of(array->type()));
    sources.push_back(leaves.back().type == nullptr ? nullptr : plain_bytes(*array, leaves.back()));
  }
  const auto memory_for = [&](size_t column) -> arrow::Result<std::shared_ptr<arrow::Buffer>> {
    if (column == arrays.size() || sources[column] == nullptr) return nullptr;
    return arrow::AllocateBuffer(count * leaves[column].bytes_of_row, pool);
  };
  std::vector<uint32_t> rows;  // in the order in which they are dealt
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> next, memory_for(0));
  for (size_t number = 0; number < arrays.size(); ++number) {
    const std::shared_ptr<arrow::Array> column = std::move(arrays[number]);
    std::shared_ptr<arrow::Buffer> target = std::move(next);
    ARROW_ASSIGN_OR_RAISE(next, memory_for(number + 1));
    if (target != nullptr) {
      deal_bytes(sources[number], target->mutable_data(), places, leaves[number].bytes_of_row,
                 next == nullptr ? nullptr : next->data());
      arrays[number] = arrow::MakeArray(wrapped(column->type(), count, std::move(target)));
      continue;
    }
    if (rows.empty()) {
      rows.resize(places.size());
      for (size_t row = 0; row < places.size(); ++row) rows[places[row]] = static_cast<uint32_t>(row);
    }
    ARROW_ASSIGN_OR_RAISE(arrays[number], take_any({column}, rows, pool));
  }
  return batch_of(*schema, count, std::move(arrays));
}

}  // namespace

arrow::Result<DealtRows> deal(std::shared_ptr<arrow::RecordBatch> batch, std::span<const uint16_t> bins, int64_t count,
                              arrow::MemoryPool* pool) {
  DealtRows dealt{.batch = nullptr, .ends = std::vector<uint32_t>(static_cast<size_t>(count))};
  for (const uint16_t bin : bins) ++dealt.ends[bin];
  std::vector<uint32_t> next(dealt.ends.size());  // place in each bin
  std::exclusive_scan(dealt.ends.begin(), dealt.ends.end(), next.begin(), uint32_t{0});
  std::partial_sum(dealt.ends.begin(), dealt.ends.end(), dealt.ends.begin());
  if (count == 1) {
    dealt.batch = std::move(batch);
    return dealt;
  }
  const auto with_places_of = [&]<typename Place>(Place) -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(const auto memory,
                          arrow::AllocateBuffer(std::ssize(bins) * static_cast<int64_t>(sizeof(Place)), pool));
    const std::span places(reinterpret_cast<Place*>(memory->mutable_data()), bins.size());
    for (size_t row = 0; row < bins.size(); ++row) places[row] = static_cast<Place>(next[bins[row]]++);
    ARROW_ASSIGN_OR_RAISE(dealt.batch, at_places<Place>(std::move(batch), places, pool));
    return arrow::Status::OK();
  };
  const bool is_short = bins.size() <= std::numeric_limits<uint16_t>::max();
  ARROW_RETURN_NOT_OK(is_short ? with_places_of(uint16_t{}) : with_places_of(uint32_t{}));
  return dealt;
}

// Of bins that are mixed together.
struct MixedBins::Group {
  std::mutex mutex;
  std::weak_ptr<const MixedRows> made;
};

struct MixedBins::Column {
  std::shared_ptr<arrow::DataType> type;
  Leaf leaf;
  std::vector<const uint8_t*> begins;  // of each part's rows, where they are plain bytes in all parts; or none
};

// A bin's rows of one part.
struct MixedBins::Cell {
  size_t part = 0;
  int64_t first = 0;
  int64_t rows = 0;
};

MixedBins::MixedBins(const WindowMix& mix, std::vector<DealtRows> parts, int64_t bytes,
                     const std::shared_ptr<Ledger>& ledger, arrow::MemoryPool* pool)
    : mix_(mix), parts_(std::move(parts)), ledger_(ledger), pool_(pool), ends_(static_cast<size_t>(mix.bins())) {
  for (const DealtRows& part : parts_) {
    for (size_t bin = 0; bin < ends_.size(); ++bin) ends_[bin] += part.ends[bin];
  }
  const int64_t of_bin = std::max<int64_t>(bytes / mix.bins(), 1);
  bins_together_ = static_cast<size_t>(std::clamp<int64_t>(kBytesTogether / of_bin, 1, mix.bins()));
  made_ = std::make_unique<Group[]>((ends_.size() + bins_together_ - 1) / bins_together_);
  for (const auto& field : parts_.front().batch->schema()->fields()) {
    Column column{.type = field->type(), .leaf = leaf_of(field->type()), .begins = {}};
    for (const DealtRows& part : parts_) {
      if (column.leaf.type == nullptr) break;
      const auto array = part.batch->column(static_cast<int>(columns_.size()));
      column.begins.push_back(plain_bytes(*array, column.leaf));
      if (column.begins.back() == nullptr) column.leaf = {};
    }
    if (column.leaf.type == nullptr) column.begins.clear();
    columns_.push_back(std::move(column));
  }
}

MixedBins::~MixedBins() = default;

arrow::Result<std::shared_ptr<const MixedRows>> MixedBins::at(int64_t place) const {
  const auto bin = static_cast<size_t>(std::ranges::upper_bound(ends_, place) - ends_.begin());
  const size_t first_bin = bin / bins_together_ * bins_together_;
  Group& group = made_[bin / bins_together_];
  const std::lock_guard lock(group.mutex);
  std::shared_ptr<const MixedRows> there = group.made.lock();
  if (there != nullptr) return there;
  auto made = std::make_shared<MixedRows>();
  made->first = first_bin == 0 ? 0 : ends_[first_bin - 1];
  ARROW_ASSIGN_OR_RAISE(const auto rows, mixed(first_bin, std::min(first_bin + bins_together_, ends_.size())));
  const auto held = std::make_shared<Ledger::Reservation>(
      Ledger::reserve(ledger_, arrow::util::ReferencedBufferSize(*rows).ValueOr(0)));
  held->leave_to_batches();
  made->batch = counted_batch(*rows, held);
  group.made = made;
  return made;
}

std::vector<MixedBins::Cell> MixedBins::cells_of(size_t bin) const {
  std::vector<Cell> cells;
  for (size_t part = 0; part < parts_.size(); ++part) {
    const std::vector<uint32_t>& ends = parts_[part].ends;
    const int64_t first = bin == 0 ? 0 : ends[bin - 1];
    const int64_t rows = ends[bin] - first;
    if (rows > 0) cells.push_back({.part = part, .first = first, .rows = rows});
  }
  return cells;
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> MixedBins::mixed(size_t first_bin, size_t end_bin) const {
  std::vector<std::vector<uint16_t>> orders;
  int64_t rows = 0;
  for (size_t bin = first_bin; bin < end_bin; ++bin) {
    const int64_t of_bin = ends_[bin] - (bin == 0 ? 0 : ends_[bin - 1]);
    orders.push_back(mix_.order_of(static_cast<int64_t>(bin), of_bin));
    rows += of_bin;
  }
  std::vector<uint32_t> of_all;  // the same, counted through the bins
  arrow::ArrayVector arrays;
  for (const Column& column : columns_) {
    if (!column.begins.empty()) {
      const int64_t bytes = rows * column.leaf.bytes_of_row;
      ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> values, arrow::AllocateBuffer(bytes, pool_));
      ARROW_RETURN_NOT_OK(mix_plain(column, first_bin, orders, values->mutable_data()));
      arrays.push_back(arrow::MakeArray(wrapped(column.type, rows, std::move(values))));
      continue;
    }
    if (of_all.empty()) {
      for (const auto& order : orders) {
        const auto before = static_cast<uint32_t>(of_all.size());
        for (const uint16_t place : order) of_all.push_back(before + place);
      }
    }
    arrow::ArrayVector parts;
    for (size_t bin = first_bin; bin < end_bin; ++bin) {
      for (const Cell& cell : cells_of(bin)) {
        const auto whole = parts_[cell.part].batch->column(static_cast<int>(arrays.size()));
        parts.push_back(whole->Slice(cell.first, cell.rows));
      }
    }
    ARROW_ASSIGN_OR_RAISE(auto taken, take_any(parts, of_all, pool_));
    arrays.push_back(std::move(taken));
  }
  return batch_of(*parts_.front().batch->schema(), rows, std::move(arrays));
}

// A bin's rows are put together, so that they are near each other, then taken in order.
arrow::Status MixedBins::mix_plain(const Column& column, size_t first_bin,
                                   std::span<const std::vector<uint16_t>> orders, uint8_t* target) const {
  const int64_t width = column.leaf.bytes_of_row;
  size_t most = 0;
  for (const auto& order : orders) most = std::max(most, order.size());
  ARROW_ASSIGN_OR_RAISE(const auto together, arrow::AllocateBuffer(static_cast<int64_t>(most) * width, pool_));
  for (size_t i = 0; i < orders.size(); ++i) {
    uint8_t* next = together->mutable_data();
    for (const Cell& cell : cells_of(first_bin + i)) {
      const auto bytes = static_cast<size_t>(cell.rows * width);
      std::memcpy(next, column.begins[cell.part] + cell.first * width, bytes);
      next += bytes;
    }
    take_bytes(together->data(), target, orders[i], width);
    target += std::ssize(orders[i]) * width;
  }
  return arrow::Status::OK();
}

}  // namespace paceline::data
