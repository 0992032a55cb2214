#include <arrow/record_batch.h>

#include <algorithm>

#include "paceline/data/source/ordered_rows_internal.h"
#include "paceline/data/source/shared_reads.h"
#include "paceline/data/source/views.h"

namespace paceline::data {

OrderedRows::OrderedRows(OrderedSource of) : of_(std::move(of)) {
  for (const ChunkSize& chunk : of_.source->chunks()) {
    rows_ += chunk.rows;
    bytes_ += chunk.bytes;
  }
}

uint64_t OrderedRows::fingerprint() const {
  return mix(mix(of_.source->fingerprint(), static_cast<uint64_t>(of_.order.shuffle)),
             static_cast<uint64_t>(of_.order.seed));
}

arrow::Result<std::vector<std::shared_ptr<arrow::RecordBatch>>> OrderedRows::read(int64_t first, int64_t rows,
                                                                                  uint64_t key, uint64_t pass) const {
  const std::shared_ptr<const Pass> order = pass_of(mix(of_.stays ? 0 : key, pass));
  key = mix(key, pass);
  std::vector<std::shared_ptr<arrow::RecordBatch>> parts;
  auto chunk = std::ranges::upper_bound(order->begins, first) - order->begins.begin() - 1;
  for (const int64_t end = first + rows; first < end; ++chunk) {
    const int64_t begin = order->begins[static_cast<size_t>(chunk)];
    const int64_t count = order->source->chunks()[static_cast<size_t>(chunk)].rows;
    const int64_t last = std::min(end, begin + count);
    if (first >= last) continue;  // a chunk without rows
    ARROW_ASSIGN_OR_RAISE(const auto batch, order->source->read(chunk, key));
    parts.push_back(batch->Slice(first - begin, last - first));
    first = last;
  }
  return parts;
}

std::shared_ptr<const OrderedRows::Pass> OrderedRows::pass_of(uint64_t key) const {
  constexpr size_t kPasses = 4;  // of two epochs, each with a source that has begun again
  const std::lock_guard lock(passes_->mutex);
  auto& passes = passes_->known;
  std::shared_ptr<const Pass>& known = passes[key];
  if (known != nullptr) return known;
  Pass pass{.source = of_.source, .begins = {}};
  if (of_.order.shuffle != Shuffle::none) {
    OrderOptions order = of_.order;
    order.epoch = static_cast<int64_t>(key);
    pass.source = ordered(of_.source, EpochOrder(of_.source->chunks(), order));
  }
  pass.source = shared_reads(std::move(pass.source));
  int64_t begin = 0;
  for (const ChunkSize& chunk : pass.source->chunks()) {
    pass.begins.push_back(begin);
    begin += chunk.rows;
  }
  auto made = std::make_shared<const Pass>(std::move(pass));
  known = made;
  if (passes.size() > kPasses) passes.erase(passes.begin()->first == key ? std::next(passes.begin()) : passes.begin());
  return made;
}

}  // namespace paceline::data
