#include "paceline/data/source/combined.h"

#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <numeric>

#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/rows/gather.h"
#include "paceline/data/schema/schema_merge_internal.h"
#include "paceline/data/source/ordered_rows_internal.h"

namespace paceline::data {
namespace {

using Part = std::vector<std::shared_ptr<arrow::RecordBatch>>;

// Chunks of equal size over the rows that inputs have in common.
class Combined : public Source {
 public:
  explicit Combined(std::vector<OrderedSource> inputs) {
    for (OrderedSource& input : inputs) inputs_.push_back(std::make_unique<OrderedRows>(std::move(input)));
  }

  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return true; }
  uint64_t fingerprint() const override {
    uint64_t print = 2;
    for (const auto& input : inputs_) print = mix(print, input->fingerprint());
    return print;
  }

 protected:
  // Of `rows` rows with so many bytes.
  void make_chunks(int64_t rows, int64_t bytes) {
    int64_t of_chunk = int64_t{1} << 20;
    for (const auto& input : inputs_) {
      const auto count = static_cast<int64_t>(input->source().chunks().size());
      if (count > 0) of_chunk = std::max(of_chunk, input->bytes() / count);
    }
    const double of_row = std::max(1.0, static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(rows, 1)));
    rows_of_chunk_ = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(of_chunk) / of_row));
    for (int64_t first = 0; first < rows; first += rows_of_chunk_) {
      const int64_t count = std::min(rows_of_chunk_, rows - first);
      chunks_.push_back({.rows = count,
                         .bytes = static_cast<int64_t>(of_row * static_cast<double>(count)),
                         .file = static_cast<int64_t>(chunks_.size())});
    }
  }
  int64_t first_of(int64_t chunk) const { return chunk * rows_of_chunk_; }

  std::vector<std::unique_ptr<OrderedRows>> inputs_;

 private:
  std::vector<ChunkSize> chunks_;
  int64_t rows_of_chunk_ = 1;
};

class Interleaved : public Combined {
 public:
  Interleaved(std::vector<OrderedSource> inputs, MixOrder order)
      : Combined(std::move(inputs)), order_(std::move(order)) {
    const std::vector<int64_t> all = order_.before(order_.rows());
    double bytes = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const double of_row =
          static_cast<double>(inputs_[i]->bytes()) / static_cast<double>(std::max<int64_t>(inputs_[i]->rows(), 1));
      bytes += of_row * static_cast<double>(all[i]);
    }
    make_chunks(order_.rows(), static_cast<int64_t>(bytes));
    for (const auto& input : inputs_) schema_.add([&input] { return input->source().schema(); });
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_.schema(); }

  uint64_t fingerprint() const override { return mix(Combined::fingerprint(), order_.fingerprint()); }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override {
    const int64_t first = first_of(chunk);
    const int64_t rows = chunks()[static_cast<size_t>(chunk)].rows;
    const std::vector<int64_t> from = order_.before(first);
    const std::vector<int64_t> until = order_.before(first + rows);
    Part batches;
    std::vector<int64_t> next(inputs_.size());  // of each input: its next row, counted through the batches
    int64_t count = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      next[i] = count;
      count += until[i] - from[i];
      for (int64_t row = from[i]; row < until[i];) {
        const int64_t pass = row / inputs_[i]->rows();  // more than one, where it has begun again
        const int64_t of_pass = row - pass * inputs_[i]->rows();
        const int64_t end = std::min(until[i] - row, inputs_[i]->rows() - of_pass);
        ARROW_ASSIGN_OR_RAISE(const Part part,
                              inputs_[i]->read(of_pass, end, mix(key, i), static_cast<uint64_t>(pass)));
        batches.insert(batches.end(), part.begin(), part.end());
        row += end;
      }
    }
    std::vector<uint32_t> picks;
    picks.reserve(static_cast<size_t>(rows));
    for (const int32_t source : order_.sources(first, rows))
      picks.push_back(static_cast<uint32_t>(next[static_cast<size_t>(source)]++));
    ARROW_ASSIGN_OR_RAISE(auto mixed, take_all(batches, std::move(picks), reading_memory()));
    return schema_.fit(std::move(mixed));
  }

 private:
  const MixOrder order_;
  SchemaOfAll schema_;
};

class Zipped : public Combined {
 public:
  explicit Zipped(std::vector<OrderedSource> inputs) : Combined(std::move(inputs)) {
    int64_t bytes = 0;
    for (const auto& input : inputs_) bytes += input->bytes();
    make_chunks(inputs_.front()->rows(), bytes);
  }

  arrow::Status check() const {
    for (const auto& input : inputs_) {
      if (input->rows() == inputs_.front()->rows()) continue;
      return arrow::Status::Invalid("zip() needs datasets of equally many rows; the first has ",
                                    inputs_.front()->rows(), ", another ", input->rows(),
                                    "; take equal parts by limit()");
    }
    return arrow::Status::OK();
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override {
    arrow::FieldVector fields;
    for (const auto& input : inputs_) {
      ARROW_ASSIGN_OR_RAISE(const auto schema, input->source().schema());
      for (const auto& field : schema->fields()) add(field, fields);
    }
    return arrow::schema(std::move(fields));
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override {
    const int64_t rows = chunks()[static_cast<size_t>(chunk)].rows;
    arrow::FieldVector fields;
    arrow::ArrayVector arrays;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      ARROW_ASSIGN_OR_RAISE(const Part part, inputs_[i]->read(first_of(chunk), rows, mix(key, i), 0));
      std::vector<RowRun> runs;
      for (const auto& batch : part) runs.push_back({static_cast<int64_t>(runs.size()), 0, batch->num_rows()});
      ARROW_ASSIGN_OR_RAISE(const auto batch, gather(part, runs, reading_memory()));
      for (const auto& field : batch->schema()->fields()) add(field, fields);
      for (const auto& array : batch->columns()) arrays.push_back(array);
    }
    return arrow::RecordBatch::Make(arrow::schema(std::move(fields)), rows, std::move(arrays));
  }

 private:
  static void add(const std::shared_ptr<arrow::Field>& field, arrow::FieldVector& fields) {
    std::string name = field->name();
    const auto is_taken = [&] {
      return std::ranges::any_of(fields, [&](const auto& known) { return known->name() == name; });
    };
    for (int number = 1; is_taken(); ++number) name = field->name() + "_" + std::to_string(number);
    fields.push_back(field->WithName(name));
  }
};

}  // namespace

std::shared_ptr<const Source> interleaved(std::vector<OrderedSource> inputs, MixOrder order) {
  return std::make_shared<Interleaved>(std::move(inputs), std::move(order));
}

arrow::Result<std::shared_ptr<const Source>> zipped(std::vector<OrderedSource> inputs) {
  auto zipped = std::make_shared<Zipped>(std::move(inputs));
  ARROW_RETURN_NOT_OK(zipped->check());
  return zipped;
}

}  // namespace paceline::data
