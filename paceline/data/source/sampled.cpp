#include "paceline/data/source/sampled.h"

#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>

#include <bit>

#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/rows/gather.h"

namespace paceline::data {
namespace {

class Sampled : public Source {
 public:
  Sampled(std::shared_ptr<const Source> source, const SampleOptions& options, int64_t most_counted)
      : source_(std::move(source)), options_(options), key_(mix(3, static_cast<uint64_t>(options.seed))) {
    int64_t rows = 0;
    for (const ChunkSize& chunk : source_->chunks()) {
      if (source_->counts_rows()) begins_.push_back(rows);
      rows += chunk.rows;
    }
    counts_rows_ = source_->counts_rows() && rows <= most_counted;
    chunks_ = source_->chunks();
    for (size_t i = 0; i < chunks_.size(); ++i) {
      ChunkSize& chunk = chunks_[i];
      chunk.bytes_to_read += chunk.bytes;  // the whole chunk is there while rows are taken of it
      if (!counts_rows_ || chunk.rows == 0) continue;
      int64_t taken = 0;
      for (int64_t row = 0; row < chunk.rows; ++row) taken += is_taken(static_cast<int64_t>(i), row);
      chunk.bytes = static_cast<int64_t>(static_cast<double>(chunk.bytes) * static_cast<double>(taken) /
                                         static_cast<double>(chunk.rows));
      chunk.rows = taken;
    }
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return source_->schema(); }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return counts_rows_; }
  uint64_t fingerprint() const override {
    return mix(mix(mix(source_->fingerprint(), key_), std::bit_cast<uint64_t>(options_.fraction)),
               options_.complement ? 1 : 0);
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override {
    ARROW_ASSIGN_OR_RAISE(auto batch, source_->read(chunk, key));
    std::vector<uint32_t> taken;
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      if (is_taken(chunk, row)) taken.push_back(static_cast<uint32_t>(row));
    }
    const auto rows = static_cast<int64_t>(taken.size());
    if (rows == batch->num_rows() || rows == 0) return batch->Slice(0, rows);
    return take_all({batch}, std::move(taken), reading_memory());
  }

 private:
  // By the row's number in the source where that is known: then it does not matter into which chunks rows are divided.
  bool is_taken(int64_t chunk, int64_t row) const {
    const uint64_t bits = begins_.empty() ? mix(mix(key_, static_cast<uint64_t>(chunk)), static_cast<uint64_t>(row))
                                          : mix(key_, static_cast<uint64_t>(begins_[static_cast<size_t>(chunk)] + row));
    const double from_0_to_1 = static_cast<double>(bits >> 11) * 0x1.0p-53;
    return (from_0_to_1 < options_.fraction) != options_.complement;
  }

  const std::shared_ptr<const Source> source_;
  const SampleOptions options_;
  const uint64_t key_;
  std::vector<int64_t> begins_;  // of each chunk, in rows of the source; empty where it does not count them
  bool counts_rows_ = false;
  std::vector<ChunkSize> chunks_;
};

}  // namespace

std::shared_ptr<const Source> sampled(std::shared_ptr<const Source> source, const SampleOptions& options,
                                      int64_t most_counted) {
  return std::make_shared<Sampled>(std::move(source), options, most_counted);
}

}  // namespace paceline::data
