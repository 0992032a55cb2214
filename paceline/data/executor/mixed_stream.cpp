#include "paceline/data/executor/mixed_stream.h"

#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>

#include <algorithm>

#include "paceline/data/executor/read_pool.h"
#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/order/permutation.h"
#include "paceline/data/rows/gather.h"

namespace paceline::data {
// Makes the next buffer the current one; none at the end.
arrow::Status MixedStream::fill() {
  if (buffer_ != nullptr) {
    ++state_.buffer;
    state_.done = 0;
  }
  state_.position = rows_.position();
  buffer_.reset();
  room_ = Ledger::reserve(windows()->pool().ledger(), 0);
  ARROW_ASSIGN_OR_RAISE(buffer_, rows_.next(state_.buffer_rows));
  if (buffer_ == nullptr) return arrow::Status::OK();
  const int64_t bytes = arrow::util::ReferencedBufferSize(*buffer_).ValueOr(0);
  room_.resize(2 * bytes);
  if (state_.done > buffer_->num_rows()) {
    return arrow::Status::Invalid("the state says that ", state_.done, " rows of a buffer are done which has ",
                                  buffer_->num_rows());
  }
  auto order = shuffled<uint32_t>(buffer_->num_rows(), mix(key_, static_cast<uint64_t>(state_.buffer)));
  ARROW_ASSIGN_OR_RAISE(buffer_, take_all({buffer_}, std::move(order), reading_memory()));
  room_.resize(bytes);
  return arrow::Status::OK();
}

int64_t MixedStream::left() const {
  return buffer_ == nullptr ? 0 : buffer_->num_rows() - state_.done;
}

arrow::Result<int64_t> MixedStream::ahead(int64_t rows) {
  if (state_.buffer_rows == 0) return rows_.ahead(rows);
  if (buffer_ == nullptr) ARROW_RETURN_NOT_OK(fill());
  if (left() >= rows) return rows;
  ARROW_ASSIGN_OR_RAISE(const int64_t behind, rows_.ahead(rows - left()));
  return left() + behind;
}

arrow::Status MixedStream::skip(int64_t rows) {
  if (state_.buffer_rows == 0) {
    ARROW_RETURN_NOT_OK(rows_.skip(rows));
    state_.position = rows_.position();
    return arrow::Status::OK();
  }
  while (rows > 0) {
    if (left() == 0) ARROW_RETURN_NOT_OK(fill());
    if (buffer_ == nullptr) return arrow::Status::OK();
    const int64_t passed = std::min(rows, left());
    state_.done += passed;
    rows -= passed;
  }
  return arrow::Status::OK();
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> MixedStream::next(int64_t rows) {
  if (state_.buffer_rows == 0) {
    ARROW_ASSIGN_OR_RAISE(auto batch, rows_.next(rows));
    state_.position = rows_.position();
    return batch;
  }
  arrow::RecordBatchVector buffers;
  std::vector<RowRun> runs;
  while (rows > 0) {
    if (left() == 0) ARROW_RETURN_NOT_OK(fill());
    if (buffer_ == nullptr) break;
    const int64_t taken = std::min(rows, left());
    runs.push_back({static_cast<int64_t>(buffers.size()), state_.done, taken});
    buffers.push_back(buffer_);
    state_.done += taken;
    rows -= taken;
  }
  if (buffers.empty()) return nullptr;
  return gather(buffers, runs, reading_memory());
}

}  // namespace paceline::data
