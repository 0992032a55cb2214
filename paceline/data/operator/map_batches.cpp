#include "paceline/data/operator/map_batches.h"

#include <arrow/record_batch.h>
#include <arrow/table.h>

#include <algorithm>

#include "paceline/core/registry.h"
#include "paceline/data/order/permutation.h"

namespace paceline::data {
namespace {

struct Registered {
  FunctionAddress address;
  BlockFunction function;
  friend bool operator==(const Registered& a, const Registered& b) { return a.address == b.address; }
};

Registry<Registered>& functions() {
  static Registry<Registered> registry({"function", "the function given to map_batches()", "PACELINE_MAP_BATCHES"});
  return registry;
}

class MapBatches : public Operator {
 public:
  MapBatches(std::string function_name, BlockFunction function, const MapBatchesOptions& options)
      : function_name_(std::move(function_name)), function_(std::move(function)), options_(options) {}

  std::string name() const override { return "MapBatches(" + function_name_ + ")"; }
  bool keeps_rows() const override { return !options_.udf_modifying_row_count; }
  uint64_t fingerprint() const override {
    return mix(mix_text(2, name()), static_cast<uint64_t>(options_.batch_size.value_or(0)));
  }
  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const std::shared_ptr<arrow::Schema>&) const override {
    return nullptr;
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply(const std::shared_ptr<arrow::RecordBatch>& block,
                                                           uint64_t key) const override {
    const int64_t rows = block->num_rows();
    const int64_t size = options_.batch_size.value_or(std::max<int64_t>(rows, 1));
    if (rows <= size) return call(block, key);
    arrow::RecordBatchVector made;
    for (int64_t first = 0; first < rows; first += size) {
      ARROW_ASSIGN_OR_RAISE(made.emplace_back(),
                            call(block->Slice(first, size), mix(key, static_cast<uint64_t>(first))));
    }
    ARROW_ASSIGN_OR_RAISE(const auto table, arrow::Table::FromRecordBatches(made));
    return table->CombineChunksToBatch();
  }

 private:
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> call(const std::shared_ptr<arrow::RecordBatch>& rows,
                                                          uint64_t key) const {
    const auto failed = [&](const std::string& why) {
      return arrow::Status::Invalid("map_batches(): the function ", function_name_, " has failed: ", why);
    };
    try {
      auto made = function_(rows, key);
      if (!made.ok()) return failed(made.status().message());
      if (!keeps_rows() || (*made)->num_rows() == rows->num_rows()) return made;
      return failed("it gave " + std::to_string((*made)->num_rows()) + " rows for " + std::to_string(rows->num_rows()) +
                    ", but udf_modifying_row_count is false");
    } catch (const std::exception& error) {
      return failed(error.what());
    }
  }

  const std::string function_name_;
  const BlockFunction function_;
  const MapBatchesOptions options_;
};

}  // namespace

void register_map_batches(const std::string& name, FunctionAddress address, BlockFunction function) {
  functions().add(name, {.address = address, .function = std::move(function)});
}

std::string map_batches_name(FunctionAddress address) {
  return functions().name_of({.address = address, .function = nullptr});
}

arrow::Result<std::shared_ptr<const Operator>> map_batches(const std::string& name, const MapBatchesOptions& options) {
  if (options.batch_size && *options.batch_size < 1) {
    return arrow::Status::Invalid("map_batches(): batch_size is ", *options.batch_size,
                                  "; allowed: a number of rows from 1, or none");
  }
  try {
    return std::make_shared<MapBatches>(name, functions().find(name).function, options);
  } catch (const UsageError& error) {
    return arrow::Status::Invalid(error.what());
  }
}

}  // namespace paceline::data
