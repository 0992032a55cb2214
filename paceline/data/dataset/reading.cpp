// What Dataset has to read its rows, each call anew.
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "paceline/core/error.h"
#include "paceline/data/dataset/shared_internal.h"
#include "paceline/data/plan/paths.h"
#include "paceline/data/reader/statistics_text.h"

namespace paceline::data {

std::shared_ptr<DatasetReader> Dataset::reader() const {
  const std::lock_guard lock(*shared_->mutex);
  if (shared_->reader == nullptr) shared_->reader = local_reader(value_or_throw(open(plan())));
  return shared_->reader;
}

void Dataset::for_each_block(const std::function<bool(const std::shared_ptr<arrow::RecordBatch>&)>& visit,
                             int64_t batch_size) const {
  const auto batches = value_or_throw(reader()->batches(
      {.options = {.batch_size = batch_size}, .threads = std::max(1U, std::thread::hardware_concurrency())}));
  for (auto block = value_or_throw(batches->next()); block != nullptr; block = value_or_throw(batches->next())) {
    if (!visit(block)) return;
  }
}

std::shared_ptr<arrow::Schema> Dataset::schema() const {
  return value_or_throw(reader()->schema());
}

std::vector<std::string> Dataset::columns() const {
  return schema()->field_names();
}

int64_t Dataset::count() const {
  const DatasetFacts facts = value_or_throw(reader()->facts());
  if (facts.counts_rows) return facts.rows;
  int64_t rows = 0;
  for_each_block([&](const auto& block) {
    rows += block->num_rows();
    return true;
  });
  return rows;
}

int64_t Dataset::num_blocks() const {
  return value_or_throw(reader()->facts()).blocks;
}

int64_t Dataset::size_bytes() const {
  return value_or_throw(reader()->facts()).bytes;
}

std::vector<std::string> Dataset::input_files() const {
  return data::input_files(plan());
}

std::shared_ptr<arrow::Table> Dataset::take(int64_t limit) const {
  constexpr int64_t kMostAtOnce = 1024;
  arrow::RecordBatchVector blocks;
  int64_t missing = limit;
  if (missing > 0) {
    for_each_block(
        [&](const auto& block) {
          blocks.push_back(block->Slice(0, missing));
          missing -= blocks.back()->num_rows();
          return missing > 0;
        },
        std::min(limit, kMostAtOnce));
  }
  if (blocks.empty()) return value_or_throw(arrow::Table::MakeEmpty(schema()));
  return value_or_throw(arrow::Table::FromRecordBatches(blocks));
}

std::shared_ptr<arrow::Table> Dataset::take_all(std::optional<int64_t> limit) const {
  arrow::RecordBatchVector blocks;
  int64_t rows = 0;
  for_each_block([&](const auto& block) {
    rows += block->num_rows();
    if (limit && rows > *limit) throw ConfigError("the dataset has more than " + std::to_string(*limit) + " rows");
    blocks.push_back(block);
    return true;
  });
  if (blocks.empty()) return value_or_throw(arrow::Table::MakeEmpty(schema()));
  return value_or_throw(arrow::Table::FromRecordBatches(blocks));
}

std::shared_ptr<arrow::RecordBatch> Dataset::take_batch(int64_t batch_size) const {
  if (batch_size < 1) {
    throw ConfigError("batch_size is " + std::to_string(batch_size) + "; allowed: a whole number from 1");
  }
  std::shared_ptr<arrow::RecordBatch> batch;
  for_each_block(
      [&](const auto& block) {
        batch = block;
        return false;
      },
      batch_size);
  if (batch == nullptr) throw ConfigError("the dataset has no rows");
  return batch;
}

void Dataset::show(int64_t limit) const {
  std::cout << take(limit)->ToString() << "\n";
}

Dataset Dataset::materialize() const {
  Plan plan{.kind = "rows"};
  for_each_block([&](const auto& block) {
    plan.rows.push_back(block);
    return true;
  });
  if (plan.rows.empty()) plan.rows.push_back(value_or_throw(arrow::RecordBatch::MakeEmpty(schema())));
  return Dataset(std::move(plan));
}

std::string Dataset::stats() const {
  return statistics_text(value_or_throw(reader()->statistics()));
}

}  // namespace paceline::data
