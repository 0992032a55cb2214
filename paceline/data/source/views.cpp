#include "paceline/data/source/views.h"

#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/rows/gather.h"
#include "paceline/data/schema/schema_merge_internal.h"
#include "paceline/data/source/shared_reads.h"
#include "paceline/storage/objects/parallel.h"

namespace paceline::data {
namespace {

using Batch = arrow::Result<std::shared_ptr<arrow::RecordBatch>>;

class Concatenated : public Source {
 public:
  explicit Concatenated(std::vector<std::shared_ptr<const Source>> sources) : sources_(std::move(sources)) {
    int64_t file = 0;
    for (const auto& source : sources_) {
      schema_.add([&source] { return source->schema(); });
      begins_.push_back(static_cast<int64_t>(chunks_.size()));
      int64_t last = -1;
      for (ChunkSize chunk : source->chunks()) {
        if (chunk.file != last) ++file;
        last = chunk.file;
        chunk.file = file;
        chunks_.push_back(chunk);
      }
    }
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_.schema(); }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override {
    return std::ranges::all_of(sources_, [](const auto& source) { return source->counts_rows(); });
  }
  Batch read(int64_t chunk, uint64_t key) const override {
    const auto source = std::ranges::upper_bound(begins_, chunk) - begins_.begin() - 1;
    const auto at = static_cast<size_t>(source);
    ARROW_ASSIGN_OR_RAISE(auto batch, sources_[at]->read(chunk - begins_[at], mix(key, at)));
    return schema_.fit(std::move(batch));
  }
  uint64_t fingerprint() const override {
    uint64_t print = 1;
    for (const auto& source : sources_) print = mix(print, source->fingerprint());
    return print;
  }

 private:
  const std::vector<std::shared_ptr<const Source>> sources_;
  SchemaOfAll schema_;
  std::vector<int64_t> begins_;  // of each source, in chunks_
  std::vector<ChunkSize> chunks_;
};

// Chunks that are pieces of another source's: each of some rows in sequence, which may stand in several chunks.
class Pieces : public Source {
 public:
  // `ends`: of each piece, in rows counted from `first` through the source.
  Pieces(std::shared_ptr<const Source> source, int64_t first, const std::vector<int64_t>& ends, uint64_t print)
      : source_(shared_reads(std::move(source))), print_(print) {
    const std::vector<ChunkSize>& chunks = source_->chunks();
    size_t chunk = 0;
    int64_t row = first;  // within the chunk
    int64_t done = 0;
    for (const int64_t end : ends) {
      std::vector<RowRun> runs;
      ChunkSize size;
      while (done < end) {
        for (; row >= chunks[chunk].rows; ++chunk) row -= chunks[chunk].rows;
        const int64_t rows = std::min(end - done, chunks[chunk].rows - row);
        runs.push_back({static_cast<int64_t>(chunk), row, rows});
        size.rows += rows;
        size.bytes += chunks[chunk].bytes * rows / chunks[chunk].rows;
        size.file = chunks[chunk].file;
        if (!source_->has_rows_in_memory()) {  // all of the chunk is read for it
          const int64_t others = chunks[chunk].bytes - chunks[chunk].bytes * rows / chunks[chunk].rows;
          size.bytes_to_read = std::max(size.bytes_to_read, others + chunks[chunk].bytes_to_read);
        }
        row += rows;
        done += rows;
      }
      if (runs.empty()) continue;
      chunks_.push_back(size);
      runs_.push_back(std::move(runs));
    }
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return source_->schema(); }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return true; }
  bool has_rows_in_memory() const override { return source_->has_rows_in_memory(); }
  uint64_t fingerprint() const override {
    uint64_t print = mix(source_->fingerprint(), print_);
    for (const ChunkSize& chunk : chunks_) print = mix(print, static_cast<uint64_t>(chunk.rows));
    return print;
  }

  Batch read(int64_t chunk, uint64_t key) const override {
    const std::vector<RowRun>& runs = runs_[static_cast<size_t>(chunk)];
    // A slice would keep all of the chunk it is cut from.
    const int64_t rows = source_->chunks()[static_cast<size_t>(runs.front().chunk)].rows;
    const bool copies = runs.size() == 1 && 2 * runs.front().rows <= rows && !source_->has_rows_in_memory();
    arrow::RecordBatchVector batches;
    std::vector<RowRun> all;
    for (const RowRun& run : runs) {
      ARROW_ASSIGN_OR_RAISE(auto batch, source_->read(run.chunk, key));
      all.push_back({static_cast<int64_t>(batches.size()), run.first, run.rows});
      batches.push_back(std::move(batch));
    }
    return gather(batches, all, reading_memory(), copies);
  }

 private:
  const std::shared_ptr<const Source> source_;
  const uint64_t print_;
  std::vector<ChunkSize> chunks_;
  std::vector<std::vector<RowRun>> runs_;  // of each chunk, in those of source_
};

class Ordered : public Source {
 public:
  Ordered(std::shared_ptr<const Source> source, EpochOrder order)
      : source_(std::move(source)), order_(std::move(order)) {
    for (const Window& window : order_.windows()) {
      ChunkSize size{.rows = window.rows, .file = static_cast<int64_t>(chunks_.size())};
      for (const int64_t chunk : chunks_of(window)) size.bytes += source_->chunks()[static_cast<size_t>(chunk)].bytes;
      chunks_.push_back(size);
    }
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return source_->schema(); }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return true; }
  uint64_t fingerprint() const override { return mix(source_->fingerprint(), order_.key()); }
  Batch read(int64_t chunk, uint64_t key) const override {
    const Window& window = order_.windows()[static_cast<size_t>(chunk)];
    arrow::RecordBatchVector batches;
    std::vector<int64_t> counts;
    for (const int64_t part : chunks_of(window)) {
      ARROW_ASSIGN_OR_RAISE(auto batch, source_->read(part, key));
      counts.push_back(batch->num_rows());
      batches.push_back(std::move(batch));
    }
    if (order_.mixes_rows() && window.rows > WindowMix::kMostRows) {
      return arrow::Status::Invalid("a window of ", window.rows, " rows cannot be mixed");
    }
    const std::vector<RowRun> runs = runs_of(counts, order_.mixed(window, counts), 0, window.rows);
    return gather(batches, runs, reading_memory());
  }

 private:
  std::span<const int64_t> chunks_of(const Window& window) const {
    return std::span(order_.chunks())
        .subspan(static_cast<size_t>(window.first_chunk), static_cast<size_t>(window.chunks));
  }

  const std::shared_ptr<const Source> source_;
  const EpochOrder order_;
  std::vector<ChunkSize> chunks_;
};

int64_t rows_of(const Source& source) {
  int64_t rows = 0;
  for (const ChunkSize& chunk : source.chunks()) rows += chunk.rows;
  return rows;
}

class Counted : public Source {
 public:
  Counted(std::shared_ptr<const Source> source, std::vector<ChunkSize> chunks)
      : source_(std::move(source)), chunks_(std::move(chunks)) {}

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return source_->schema(); }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return true; }
  uint64_t fingerprint() const override { return source_->fingerprint(); }
  Batch read(int64_t chunk, uint64_t key) const override {
    ARROW_ASSIGN_OR_RAISE(auto batch, source_->read(chunk, key));
    const int64_t counted = chunks_[static_cast<size_t>(chunk)].rows;
    if (batch->num_rows() == counted) return batch;
    return arrow::Status::Invalid("block ", chunk, " had ", counted, " rows when they were counted, and has ",
                                  batch->num_rows(),
                                  " now. What is counted (limit, split, count) cannot depend on chance or change");
  }

 private:
  const std::shared_ptr<const Source> source_;
  const std::vector<ChunkSize> chunks_;
};

}  // namespace

std::shared_ptr<const Source> concatenated(std::vector<std::shared_ptr<const Source>> sources) {
  return std::make_shared<Concatenated>(std::move(sources));
}

std::shared_ptr<const Source> range_of(std::shared_ptr<const Source> source, int64_t first, int64_t rows) {
  rows = std::max<int64_t>(0, std::min(rows, rows_of(*source) - first));
  std::vector<int64_t> ends;
  int64_t end = -first;  // of the chunk, counted from `first`
  for (const ChunkSize& chunk : source->chunks()) {
    end += chunk.rows;
    if (end > 0 && rows > 0) ends.push_back(std::min(end, rows));
    if (end >= rows) break;
  }
  return std::make_shared<Pieces>(std::move(source), first, ends, static_cast<uint64_t>(first));
}

std::shared_ptr<const Source> repartitioned(std::shared_ptr<const Source> source, int64_t chunks) {
  const int64_t rows = rows_of(*source);
  std::vector<int64_t> ends;
  const int64_t with_rows = std::min(chunks, rows);
  for (int64_t chunk = 1; chunk <= with_rows; ++chunk) {
    const auto end = static_cast<__int128>(rows) * chunk / with_rows;
    ends.push_back(static_cast<int64_t>(end));
  }
  return std::make_shared<Pieces>(std::move(source), 0, ends, static_cast<uint64_t>(chunks));
}

std::shared_ptr<const Source> in_multiples(std::shared_ptr<const Source> source, int64_t rows) {
  const int64_t all = rows_of(*source);
  std::vector<int64_t> ends;
  int64_t end = 0;
  bool has_other_ends = false;
  for (const ChunkSize& chunk : source->chunks()) {
    end += chunk.rows;
    const int64_t multiple = end % rows == 0 ? end : std::min(all - end, rows - end % rows) + end;
    has_other_ends |= multiple != end;
    if (ends.empty() || ends.back() < multiple) ends.push_back(multiple);
  }
  if (!has_other_ends) return source;
  return std::make_shared<Pieces>(std::move(source), 0, ends, static_cast<uint64_t>(rows));
}

std::shared_ptr<const Source> ordered(std::shared_ptr<const Source> source, EpochOrder order) {
  return std::make_shared<Ordered>(std::move(source), std::move(order));
}

arrow::Result<std::shared_ptr<const Source>> counted(std::shared_ptr<const Source> source, int64_t rows,
                                                     size_t threads) {
  if (source->counts_rows()) return source;
  std::vector<ChunkSize> chunks = source->chunks();
  size_t counted = 0;
  // A few chunks at a time, so that a limit does not read everything.
  for (int64_t found = 0; counted < chunks.size() && found < rows;) {
    const size_t more = std::min(chunks.size() - counted, 4 * threads);
    ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(
        more,
        [&](size_t i) -> arrow::Status {
          ARROW_ASSIGN_OR_RAISE(auto batch, source->read(static_cast<int64_t>(counted + i), 0));
          chunks[counted + i].rows = batch->num_rows();
          return arrow::Status::OK();
        },
        threads));
    for (size_t i = 0; i < more; ++i) found += chunks[counted++].rows;
  }
  chunks.resize(counted);
  return std::make_shared<Counted>(std::move(source), std::move(chunks));
}

}  // namespace paceline::data
