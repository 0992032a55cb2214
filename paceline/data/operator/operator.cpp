#include "paceline/data/operator/operator.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>

#include "paceline/core/posix/forks.h"

namespace paceline::data {
namespace {

using Batch = arrow::Result<std::shared_ptr<arrow::RecordBatch>>;

// Calls `make`, which gives a block of `rows_in` rows' worth, and counts it.
template <typename Make>
Batch counted(OperatorStatistics& statistics, int64_t rows_in, Make make) {
  const UnderWay::One block(statistics.in_hand);
  const auto start = std::chrono::steady_clock::now();
  const auto waited_before = Waiting::of_this_thread();
  Batch batch = make();
  const auto waited = Waiting::of_this_thread() - waited_before;
  statistics.busy.add(std::chrono::steady_clock::now() - start - waited);
  statistics.waited_ns += waited.count();
  if (!batch.ok()) return batch;
  ++statistics.blocks;
  statistics.rows_in += rows_in;
  statistics.rows_out += (*batch)->num_rows();
  statistics.bytes_out += arrow::util::ReferencedBufferSize(**batch).ValueOr(0);
  return batch;
}

class Measured : public Source {
 public:
  Measured(std::shared_ptr<const Source> source, std::shared_ptr<OperatorStatistics> statistics)
      : source_(std::move(source)), statistics_(std::move(statistics)) {}

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return source_->schema(); }
  const std::vector<ChunkSize>& chunks() const override { return source_->chunks(); }
  bool counts_rows() const override { return source_->counts_rows(); }
  bool has_rows_in_memory() const override { return source_->has_rows_in_memory(); }
  uint64_t fingerprint() const override { return source_->fingerprint(); }
  Batch read(int64_t chunk, uint64_t key) const override {
    return counted(*statistics_, 0, [&] { return source_->read(chunk, key); });
  }

 private:
  const std::shared_ptr<const Source> source_;
  const std::shared_ptr<OperatorStatistics> statistics_;
};

class Transformed : public Source {
 public:
  Transformed(std::shared_ptr<const Source> source, std::shared_ptr<const Operator> step,
              std::shared_ptr<OperatorStatistics> statistics, uint64_t place)
      : source_(std::move(source)),
        step_(std::move(step)),
        statistics_(std::move(statistics)),
        place_(place),
        chunks_(source_->chunks()) {
    for (ChunkSize& chunk : chunks_) {
      chunk.bytes_to_read = std::max(chunk.bytes_to_read, step_->bytes_besides(chunk.bytes));
    }
  }

  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return source_->counts_rows() && step_->keeps_rows(); }
  uint64_t fingerprint() const override { return mix(source_->fingerprint(), step_->fingerprint()); }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override {
    const std::lock_guard lock(known_->mutex);
    std::shared_ptr<arrow::Schema>& schema = known_->schema;
    if (schema != nullptr) return schema;
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Schema> input, source_->schema());
    ARROW_ASSIGN_OR_RAISE(schema, step_->schema(input));
    const auto count = static_cast<int64_t>(chunks().size());
    for (int64_t chunk = 0; chunk < count && schema == nullptr; ++chunk) {
      ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::RecordBatch> batch, read(chunk, 0));
      // A function's columns of no rows may have no type; those of the last chunk are better than none.
      if (batch->num_rows() > 0 || chunk + 1 == count) schema = batch->schema();
    }
    if (schema == nullptr) {  // there is no chunk
      ARROW_ASSIGN_OR_RAISE(const auto nothing, arrow::RecordBatch::MakeEmpty(input));
      ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::RecordBatch> batch, step_->apply(nothing, 0));
      schema = batch->schema();
    }
    return schema;
  }

  Batch read(int64_t chunk, uint64_t key) const override {
    const std::shared_ptr<const void> turn = step_->line_up();
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::RecordBatch> batch, source_->read(chunk, key));
    const auto key_of = [&](int64_t block) { return mix(mix(key, static_cast<uint64_t>(block)), place_); };
    const auto read_other = [&](int64_t block) -> arrow::Result<BlockPlace::Block> {
      ARROW_ASSIGN_OR_RAISE(auto rows, source_->read(block, key));
      return BlockPlace::Block{.rows = std::move(rows), .key = key_of(block)};
    };
    const BlockPlace place{.block = chunk, .blocks = static_cast<int64_t>(chunks().size()), .read = read_other};
    Batch made = counted(*statistics_, batch->num_rows(), [&] { return step_->apply_at(batch, key_of(chunk), place); });
    if (!made.ok()) return made.status().WithMessage(made.status().message(), "; ", name_of(chunk));
    if (step_->keeps_rows() && (*made)->num_rows() != batch->num_rows()) {
      return arrow::Status::Invalid(step_->name(), " must give one row for each row, but gave ", (*made)->num_rows(),
                                    " for ", batch->num_rows());
    }
    return made;
  }

 private:
  // "block 3 (rows 90 to 119)", in the order of the source.
  std::string name_of(int64_t chunk) const {
    std::string name = "block " + std::to_string(chunk);
    if (!source_->counts_rows()) return name;
    const auto here = chunks().begin() + chunk;
    int64_t first = 0;
    for (auto before = chunks().begin(); before != here; ++before) first += before->rows;
    return name + " (rows " + std::to_string(first) + " to " + std::to_string(first + here->rows - 1) + ")";
  }

  const std::shared_ptr<const Source> source_;
  const std::shared_ptr<const Operator> step_;
  const std::shared_ptr<OperatorStatistics> statistics_;
  const uint64_t place_;
  std::vector<ChunkSize> chunks_;
  struct Known {
    std::mutex mutex;
    std::shared_ptr<arrow::Schema> schema;
  };
  const PerProcess<Known> known_;
};

}  // namespace

Batch Operator::apply_at(const std::shared_ptr<arrow::RecordBatch>& block, uint64_t key, const BlockPlace&) const {
  return apply(block, key);
}

std::shared_ptr<const Source> transformed(std::shared_ptr<const Source> source, std::shared_ptr<const Operator> step,
                                          std::shared_ptr<OperatorStatistics> statistics, uint64_t place) {
  return std::make_shared<Transformed>(std::move(source), std::move(step), std::move(statistics), place);
}

std::shared_ptr<const Source> measured(std::shared_ptr<const Source> source,
                                       std::shared_ptr<OperatorStatistics> statistics) {
  return std::make_shared<Measured>(std::move(source), std::move(statistics));
}

}  // namespace paceline::data
