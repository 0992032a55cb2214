#include "paceline/data/memory/counted_batch.h"

#include <arrow/array/data.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace paceline::data {
namespace {

class CountedBuffer : public arrow::Buffer {
 public:
  CountedBuffer(const std::shared_ptr<arrow::Buffer>& memory, std::shared_ptr<Ledger::Reservation> reservation)
      : Buffer(memory, 0, memory->size()), reservation_(std::move(reservation)) {}

 private:
  // Ends before the memory, so that this finds room where it is kept for its next use.
  const std::shared_ptr<Ledger::Reservation> reservation_;
};

std::shared_ptr<arrow::ArrayData> counted(const arrow::ArrayData& data,
                                          const std::shared_ptr<Ledger::Reservation>& reservation) {
  auto same = std::make_shared<arrow::ArrayData>(data);
  for (auto& buffer : same->buffers) {
    if (buffer != nullptr) buffer = std::make_shared<CountedBuffer>(buffer, reservation);
  }
  for (auto& child : same->child_data) child = counted(*child, reservation);
  if (same->dictionary != nullptr) same->dictionary = counted(*same->dictionary, reservation);
  return same;
}

bool is_counted(const arrow::ArrayData& data) {
  const auto is_counted_buffer = [](std::shared_ptr<arrow::Buffer> buffer) {
    while (buffer != nullptr && dynamic_cast<const CountedBuffer*>(buffer.get()) == nullptr) buffer = buffer->parent();
    return buffer != nullptr;
  };
  return std::ranges::any_of(data.buffers, is_counted_buffer) ||
         std::ranges::any_of(data.child_data, [](const auto& child) { return is_counted(*child); });
}

}  // namespace

std::shared_ptr<arrow::RecordBatch> counted_batch(const arrow::RecordBatch& batch,
                                                  const std::shared_ptr<Ledger::Reservation>& reservation) {
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  for (const auto& column : batch.column_data()) columns.push_back(counted(*column, reservation));
  return arrow::RecordBatch::Make(batch.schema(), batch.num_rows(), std::move(columns));
}

bool has_counted_part(const arrow::RecordBatch& batch) {
  return std::ranges::any_of(batch.column_data(), [](const auto& column) { return is_counted(*column); });
}

}  // namespace paceline::data
