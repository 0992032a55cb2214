// Rows of some batches in another order, column by column.
//
// A column of numbers is larger than a core's cache, so its values are mixed in two steps, neither of which leaves the
// cache: they are dealt, in the order in which they stand, to bins of rows that come after each other in the new order;
// then each bin is put in order. Which value goes where is the same for all columns, and found once.
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

#include "paceline/data/rows/gather.h"
#include "paceline/data/rows/row_copies.h"
#include "paceline/data/rows/row_kernels_internal.h"

namespace paceline::data {
namespace {

constexpr int64_t kRowsFetchedAhead = 8;
constexpr int64_t kAlignment = 64;

// A bin of numbers fits into a core's own cache, and its rows can be counted with 16 bits.
constexpr size_t kRowsOfBin = size_t{1} << 16;

using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

// Where rows go.
class Mixing {
 public:
  // `rows`: numbers counted through the batches.
  Mixing(const Batches& batches, std::vector<uint32_t> rows) : rows_(std::move(rows)) {
    for (const auto& batch : batches) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + batch->num_rows());
    has_bins_ = find_bins();
  }

  int64_t rows() const { return std::ssize(rows_); }

  arrow::Result<std::shared_ptr<arrow::Array>> mixed(const arrow::ArrayVector& parts, arrow::MemoryPool* pool) const {
    const std::shared_ptr<arrow::DataType>& type = parts.front()->type();
    const Leaf leaf = leaf_of(type);
    const auto is_plain = [&](const auto& part) { return plain_bytes(*part, leaf) != nullptr; };
    if (leaf.type == nullptr || !std::ranges::all_of(parts, is_plain)) return take_any(parts, rows_, pool);
    const int64_t bytes = (rows() + 1) * leaf.bytes_of_row + kAlignment;  // one for unwanted rows
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Buffer> values, arrow::AllocateBuffer(bytes, pool));
    const bool is_narrow = has_bins_ && with_row_type(leaf.bytes_of_row, [](auto) {});
    is_narrow ? mix_narrow(parts, leaf, values->mutable_data()) : mix_wide(parts, leaf, values->mutable_data());
    return arrow::MakeArray(wrapped(type, rows(), arrow::SliceBuffer(values, 0, rows() * leaf.bytes_of_row)));
  }

 private:
  bool find_bins();
  void mix_narrow(const arrow::ArrayVector& parts, const Leaf& leaf, uint8_t* target) const;
  void mix_wide(const arrow::ArrayVector& parts, const Leaf& leaf, uint8_t* target) const;

  const std::vector<uint32_t> rows_;
  std::vector<int64_t> ends_;  // of the batches, in rows counted through them
  bool has_bins_ = false;
  std::vector<uint32_t> dealt_;   // where each row stands once it is dealt, counted through the bins
  std::vector<uint16_t> of_bin_;  // which of its bin's rows comes first, second, …; bin after bin
};

// False where a row is wanted twice: it has one place only.
bool Mixing::find_bins() {
  const size_t rows = rows_.size();
  dealt_.assign(static_cast<size_t>(ends_.back()), static_cast<uint32_t>(rows));  // unwanted
  for (size_t place = 0; place < rows; ++place) {
    uint32_t& bin = dealt_[rows_[place]];
    if (bin != rows) return false;
    bin = static_cast<uint32_t>(place / kRowsOfBin);
  }
  std::vector<uint32_t> next;  // place in each bin
  for (size_t first = 0; first < rows; first += kRowsOfBin) next.push_back(static_cast<uint32_t>(first));
  for (uint32_t& place : dealt_) {
    if (place != rows) place = next[place]++;
  }
  of_bin_.resize(rows);
  for (size_t place = 0; place < rows; ++place) {
    of_bin_[place] = static_cast<uint16_t>(dealt_[rows_[place]] % kRowsOfBin);
  }
  return true;
}

void Mixing::mix_narrow(const arrow::ArrayVector& parts, const Leaf& leaf, uint8_t* target) const {
  with_row_type(leaf.bytes_of_row, [&]<typename Row>(Row) {
    const std::span<const uint32_t> dealt(dealt_);
    size_t first = 0;
    for (const auto& part : parts) {
      const auto rows = static_cast<size_t>(part->length());
      deal_rows<Row, uint32_t>(plain_bytes(*part, leaf), target, dealt.subspan(first, rows), target);
      first += rows;
    }
    const std::span<const uint16_t> of_bin(of_bin_);
    std::vector<uint8_t> bin(std::min(of_bin.size(), kRowsOfBin) * Row::size());
    for (size_t place = 0; place < of_bin.size(); place += kRowsOfBin) {
      const size_t rows = std::min(of_bin.size() - place, kRowsOfBin);
      uint8_t* const here = target + place * Row::size();
      std::memcpy(bin.data(), here, rows * Row::size());
      take_rows<Row>(bin.data(), here, of_bin.subspan(place, rows));
    }
  });
}

void Mixing::mix_wide(const arrow::ArrayVector& parts, const Leaf& leaf, uint8_t* target) const {
  const auto width = static_cast<size_t>(leaf.bytes_of_row);
  std::vector<const uint8_t*> begins;  // where row 0 of all rows would be, if the part began there
  for (size_t part = 0; part < parts.size(); ++part) {
    const int64_t before = part == 0 ? 0 : ends_[part - 1];
    begins.push_back(plain_bytes(*parts[part], leaf) - before * leaf.bytes_of_row);
  }
  const uint8_t* next[kRowsFetchedAhead];
  const auto fetch = [&](int64_t place) {
    const int64_t row = rows_[static_cast<size_t>(place)];
    const auto part = std::ranges::upper_bound(ends_, row) - ends_.begin();
    const uint8_t* const source = begins[static_cast<size_t>(part)] + static_cast<size_t>(row) * width;
    for (size_t line = 0; line < std::min<size_t>(width, 512); line += kAlignment) __builtin_prefetch(source + line);
    next[place % kRowsFetchedAhead] = source;
  };
  for (int64_t place = 0; place < std::min(rows(), kRowsFetchedAhead); ++place) fetch(place);
  for (int64_t place = 0; place < rows(); ++place) {
    std::memcpy(target, next[place % kRowsFetchedAhead], width);
    target += width;
    if (place + kRowsFetchedAhead < rows()) fetch(place + kRowsFetchedAhead);
  }
}

}  // namespace

arrow::Result<std::shared_ptr<arrow::Array>> take_any(const arrow::ArrayVector& parts,
                                                      const std::vector<uint32_t>& rows, arrow::MemoryPool* pool) {
  static const arrow::Status kInitialized = arrow::compute::Initialize();
  ARROW_RETURN_NOT_OK(kInitialized);
  arrow::compute::ExecContext context(pool);
  context.set_use_threads(false);
  const arrow::UInt32Array places(std::ssize(rows), arrow::Buffer::Wrap(rows));
  auto taken = arrow::Concatenate(parts, pool);
  if (taken.ok()) {
    taken = arrow::compute::Take(**taken, places, arrow::compute::TakeOptions::NoBoundsCheck(), &context);
  }
  // It knows no views, and dictionaries only where their index can count the words of all parts.
  const bool is_dictionary = parts.front()->type_id() == arrow::Type::DICTIONARY;
  if (taken.ok() || !(is_dictionary || taken.status().IsNotImplemented())) return taken;
  std::vector<int64_t> counts;
  for (const auto& part : parts) counts.push_back(part->length());
  return gather_any(parts, runs_of(counts, rows, 0, std::ssize(rows)), pool);
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> take_all(const Batches& batches, std::vector<uint32_t> rows,
                                                            arrow::MemoryPool* pool) {
  ARROW_ASSIGN_OR_RAISE(const Batches same, alike(batches, pool));
  const Mixing mixing(same, std::move(rows));
  arrow::ArrayVector columns;
  for (int number = 0; number < same.front()->num_columns(); ++number) {
    arrow::ArrayVector parts;
    for (const auto& batch : same) parts.push_back(batch->column(number));
    ARROW_ASSIGN_OR_RAISE(auto column, mixing.mixed(parts, pool));
    columns.push_back(std::move(column));
  }
  return batch_of(*same.front()->schema(), mixing.rows(), std::move(columns));
}

}  // namespace paceline::data
