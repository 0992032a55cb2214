#include "paceline/data/executor/mixing.h"

#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/buffer.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/exec.h>
#include <arrow/compute/initialize.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <cstring>

namespace paceline::data {
namespace {

// From so many bytes on, a row is copied from where it is: it fills cache lines of its own.
constexpr int64_t kWideRow = 64;
constexpr int64_t kBytesOfPiece = int64_t{4} << 20;
constexpr int64_t kRowsFetchedAhead = 8;
constexpr int64_t kAlignment = 64;

template <size_t kBytes>
void take_values(const uint8_t* source, uint8_t* target, const std::vector<uint32_t>& rows) {
  struct Value {
    uint8_t bytes[kBytes];
  };
  const auto* from = reinterpret_cast<const Value*>(source);
  auto* to = reinterpret_cast<Value*>(target);
  for (size_t i = 0; i < rows.size(); ++i) to[i] = from[rows[i]];
}

void take_values(const uint8_t* source, uint8_t* target, const std::vector<uint32_t>& rows, int64_t bytes_of_row) {
  switch (bytes_of_row) {
    case 1:
      return take_values<1>(source, target, rows);
    case 2:
      return take_values<2>(source, target, rows);
    case 4:
      return take_values<4>(source, target, rows);
    case 8:
      return take_values<8>(source, target, rows);
    default:
      break;
  }
  const auto width = static_cast<size_t>(bytes_of_row);
  for (const uint32_t row : rows) {
    std::memcpy(target, source + row * width, width);
    target += width;
  }
}

}  // namespace

Mixing::Mixing(std::shared_ptr<arrow::Schema> schema, std::vector<uint32_t> rows, std::shared_ptr<LargeBuffers> buffers,
               arrow::MemoryPool* pool)
    : schema_(std::move(schema)), rows_(std::move(rows)), buffers_(std::move(buffers)), pool_(pool) {}

arrow::Result<std::unique_ptr<Mixing>> Mixing::make(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches,
                                                    std::vector<uint32_t> rows, std::shared_ptr<LargeBuffers> buffers,
                                                    arrow::MemoryPool* pool) {
  ARROW_ASSIGN_OR_RAISE(const auto same, alike(batches, pool));
  std::unique_ptr<Mixing> mixing(new Mixing(same.front()->schema(), std::move(rows), std::move(buffers), pool));
  ARROW_RETURN_NOT_OK(mixing->prepare(same));
  return mixing;
}

arrow::Status Mixing::prepare(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches) {
  for (const auto& batch : batches) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + batch->num_rows());
  const auto rows = static_cast<int64_t>(rows_.size());
  int64_t plain_bytes_in_all = 0;
  const auto bytes_of = [&](const Column& column) {
    return (rows * column.leaf.bytes_of_row + kAlignment - 1) / kAlignment * kAlignment;
  };
  for (int number = 0; number < schema_->num_fields(); ++number) {
    auto column = std::make_unique<Column>();
    column->leaf = leaf_of(schema_->field(number)->type());
    column->is_plain = column->leaf.type != nullptr;
    for (const auto& batch : batches) {
      column->parts.push_back(batch->column(number));
      column->is_plain = column->is_plain && plain_bytes(*column->parts.back(), column->leaf) != nullptr;
    }
    if (column->is_plain) plain_bytes_in_all += bytes_of(*column);
    columns_.push_back(std::move(column));
  }
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Buffer> block, buffers_->allocate(plain_bytes_in_all, pool_));
  int64_t offset = 0;
  for (size_t number = 0; number < columns_.size(); ++number) {
    Column& column = *columns_[number];
    int64_t rows_of_piece = std::max<int64_t>(rows, 1);
    if (column.is_plain) {
      column.values = arrow::SliceMutableBuffer(block, offset, rows * column.leaf.bytes_of_row);
      offset += bytes_of(column);
      if (column.leaf.bytes_of_row >= kWideRow) {
        rows_of_piece = std::max<int64_t>(1, kBytesOfPiece / column.leaf.bytes_of_row);
      }
    }
    for (int64_t first = 0; first == 0 || first < rows; first += rows_of_piece) {
      pieces_.push_back({.column = number, .first = first, .rows = std::min(rows_of_piece, rows - first)});
      ++column.pieces_left;
    }
  }
  return arrow::Status::OK();
}

arrow::Status Mixing::run(int64_t piece) {
  const Piece& mine = pieces_[static_cast<size_t>(piece)];
  Column& column = *columns_[mine.column];
  if (!column.is_plain) {
    ARROW_ASSIGN_OR_RAISE(column.mixed, taken(column));
  } else if (column.leaf.bytes_of_row >= kWideRow) {
    mix_wide(column, mine.first, mine.rows);
  } else {
    ARROW_RETURN_NOT_OK(mix_narrow(column));
  }
  if (--column.pieces_left == 0) column.parts.clear();
  return arrow::Status::OK();
}

// The parts one behind the other, which also brings them near, then their values.
arrow::Status Mixing::mix_narrow(const Column& column) {
  const int64_t width = column.leaf.bytes_of_row;
  const uint8_t* source = plain_bytes(*column.parts.front(), column.leaf);
  std::shared_ptr<arrow::Buffer> whole;
  if (column.parts.size() > 1) {
    ARROW_ASSIGN_OR_RAISE(whole, scratch(ends_.back() * width));
    uint8_t* target = whole->mutable_data();
    for (const auto& part : column.parts) {
      const auto bytes = static_cast<size_t>(part->length() * width);
      if (bytes > 0) std::memcpy(target, plain_bytes(*part, column.leaf), bytes);
      target += bytes;
    }
    source = whole->data();
  }
  take_values(source, column.values->mutable_data(), rows_, width);
  if (whole != nullptr) {
    const std::lock_guard lock(mutex_);
    scratches_.push_back(std::move(whole));
  }
  return arrow::Status::OK();
}

void Mixing::mix_wide(const Column& column, int64_t first, int64_t rows) const {
  const auto width = static_cast<size_t>(column.leaf.bytes_of_row);
  std::vector<const uint8_t*> parts;  // where row 0 of all rows would be, if the part began there
  for (size_t part = 0; part < column.parts.size(); ++part) {
    const int64_t before = part == 0 ? 0 : ends_[part - 1];
    parts.push_back(plain_bytes(*column.parts[part], column.leaf) - before * column.leaf.bytes_of_row);
  }
  const auto place_of = [&](int64_t place) {
    const int64_t row = rows_[static_cast<size_t>(place)];
    const auto part = std::ranges::upper_bound(ends_, row) - ends_.begin();
    return parts[static_cast<size_t>(part)] + static_cast<size_t>(row) * width;
  };
  const uint8_t* next[kRowsFetchedAhead];
  const auto fetch = [&](int64_t place) {
    const uint8_t* source = place_of(place);
    for (size_t line = 0; line < std::min<size_t>(width, 512); line += kAlignment) __builtin_prefetch(source + line);
    next[place % kRowsFetchedAhead] = source;
  };
  for (int64_t place = first; place < first + std::min(rows, kRowsFetchedAhead); ++place) fetch(place);
  uint8_t* target = column.values->mutable_data() + static_cast<size_t>(first) * width;
  for (int64_t place = first; place < first + rows; ++place) {
    std::memcpy(target, next[place % kRowsFetchedAhead], width);
    target += width;
    if (place + kRowsFetchedAhead < first + rows) fetch(place + kRowsFetchedAhead);
  }
}

arrow::Result<std::shared_ptr<arrow::Array>> Mixing::taken(const Column& column) const {
  static const arrow::Status kInitialized = arrow::compute::Initialize();
  ARROW_RETURN_NOT_OK(kInitialized);
  arrow::compute::ExecContext context(pool_);
  context.set_use_threads(false);
  const arrow::UInt32Array places(static_cast<int64_t>(rows_.size()), arrow::Buffer::Wrap(rows_));
  auto taken = arrow::Concatenate(column.parts, pool_);
  if (taken.ok()) {
    taken = arrow::compute::Take(**taken, places, arrow::compute::TakeOptions::NoBoundsCheck(), &context);
  }
  // It knows no views, and dictionaries only where their index can count the words of all parts.
  const bool is_dictionary = column.parts.front()->type_id() == arrow::Type::DICTIONARY;
  if (taken.ok() || !(is_dictionary || taken.status().IsNotImplemented())) return taken;
  std::vector<int64_t> counts;
  for (const auto& part : column.parts) counts.push_back(part->length());
  const std::vector<int64_t> order(rows_.begin(), rows_.end());
  return gather_any(column.parts, runs_of(counts, order, 0, std::ssize(order)), pool_);
}

arrow::Result<std::shared_ptr<arrow::Buffer>> Mixing::scratch(int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(scratches_, [&](const auto& buffer) { return buffer->size() >= bytes; });
    if (found != scratches_.end()) {
      std::shared_ptr<arrow::Buffer> buffer = std::move(*found);
      scratches_.erase(found);
      return buffer;
    }
  }
  return buffers_->allocate(bytes, pool_);
}

std::shared_ptr<arrow::RecordBatch> Mixing::finish() {
  const auto rows = static_cast<int64_t>(rows_.size());
  arrow::ArrayVector arrays;
  for (int number = 0; number < schema_->num_fields(); ++number) {
    Column& column = *columns_[static_cast<size_t>(number)];
    arrays.push_back(column.is_plain ? arrow::MakeArray(wrapped(schema_->field(number)->type(), rows, column.values))
                                     : column.mixed);
  }
  return batch_of(*schema_, rows, std::move(arrays));
}

}  // namespace paceline::data
