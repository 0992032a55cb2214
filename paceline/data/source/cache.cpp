#include "paceline/data/source/cache.h"

#include <arrow/record_batch.h>

#include <cstdio>
#include <limits>

#include "paceline/data/order/permutation.h"
#include "paceline/data/source/block_store_internal.h"

namespace paceline::data {
namespace {

class Cached : public Source {
 public:
  Cached(std::shared_ptr<const Source> source, std::unique_ptr<BlockStore> store)
      : source_(std::move(source)), store_(std::move(store)) {}

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return source_->schema(); }
  const std::vector<ChunkSize>& chunks() const override { return source_->chunks(); }
  bool counts_rows() const override { return source_->counts_rows(); }
  uint64_t fingerprint() const override { return mix_text(source_->fingerprint(), "cached"); }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t) const override {
    if (auto kept = store_->find(chunk)) return kept;
    constexpr uint64_t kKey = 0;
    ARROW_ASSIGN_OR_RAISE(auto batch, source_->read(chunk, kKey));
    store_->keep(chunk, batch);
    return batch;
  }

 private:
  const std::shared_ptr<const Source> source_;
  const std::unique_ptr<BlockStore> store_;
};

}  // namespace

arrow::Result<std::shared_ptr<const Source>> cached(std::shared_ptr<const Source> source, const CacheOptions& options) {
  if (options.bytes && *options.bytes < 0) {
    return arrow::Status::Invalid("a cache of ", *options.bytes, " bytes; wanted: 0 or more");
  }
  std::unique_ptr<BlockStore> store;
  if (options.path.empty()) {
    store = memory_store(options.bytes);
  } else {
    char name[17];
    std::snprintf(name, sizeof(name), "%016llx",
                  static_cast<unsigned long long>(mix(source->fingerprint(), options.version)));  // NOLINT
    ARROW_ASSIGN_OR_RAISE(store,
                          disk_store(options.path, name, options.bytes.value_or(std::numeric_limits<int64_t>::max())));
  }
  return std::make_shared<Cached>(std::move(source), std::move(store));
}

}  // namespace paceline::data
