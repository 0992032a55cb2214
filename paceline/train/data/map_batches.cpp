#include "paceline/train/data/map_batches.h"

#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <ATen/CPUGeneratorImpl.h>

#include "paceline/data/rows/gather.h"
#include "paceline/train/data/tensors.h"

namespace paceline::train {
torch::Tensor take_column(TensorBatch& batch, const char* name) {
  const auto column = batch.find(name);
  if (column != batch.end()) return std::move(column->second);
  std::string names;
  for (const auto& [other, tensor] : batch) names += (names.empty() ? "" : ", ") + other;
  throw ConfigError(std::string("the dataset has no column '") + name +
                    "', which the batch's type wants; it has: " + names);
}

data::BlockFunction block_function(std::function<TensorBatch(TensorBatch, torch::Generator&)> function) {
  return [function = std::move(function)](const std::shared_ptr<arrow::RecordBatch>& rows,
                                          uint64_t key) -> arrow::Result<std::shared_ptr<arrow::RecordBatch>> {
    const torch::NoGradGuard no_gradients;
    ARROW_ASSIGN_OR_RAISE(TensorBatch batch, to_tensors(*rows));
    torch::Generator chance = at::make_generator<at::CPUGeneratorImpl>(key);
    return to_rows(function(std::move(batch), chance), rows->schema()->field_names());
  };
}

namespace {

// Calls `visit` with the number and the tensors of each row.
template <typename Visit>
arrow::Status for_each_row(const arrow::RecordBatch& rows, uint64_t key, Visit visit) {
  const torch::NoGradGuard no_gradients;
  ARROW_ASSIGN_OR_RAISE(const TensorBatch batch, to_tensors(rows));
  torch::Generator chance = at::make_generator<at::CPUGeneratorImpl>(key);
  for (int64_t number = 0; number < rows.num_rows(); ++number) {
    TensorBatch row;
    for (const auto& [name, tensor] : batch) row[name] = tensor[number];
    visit(number, std::move(row), chance);
  }
  return arrow::Status::OK();
}

// Rows of one kind as a batch.
arrow::Result<TensorBatch> stacked(const std::vector<TensorBatch>& rows) {
  TensorBatch batch;
  for (const auto& [name, first] : rows.front()) {
    std::vector<torch::Tensor> values;
    for (const TensorBatch& row : rows) {
      const auto value = row.find(name);
      if (value == row.end() || row.size() != rows.front().size()) {
        return arrow::Status::Invalid("it gave rows of different columns; one has '", name, "', another has not");
      }
      if (value->second.sizes() != first.sizes()) {
        return arrow::Status::Invalid("it gave tensors of different shapes for '", name, "': ", c10::str(first.sizes()),
                                      " and ", c10::str(value->second.sizes()));
      }
      values.push_back(value->second);
    }
    batch[name] = torch::stack(values);
  }
  return batch;
}

}  // namespace

data::BlockFunction row_function(std::function<std::vector<TensorBatch>(TensorBatch, torch::Generator&)> function) {
  return [function = std::move(function)](const std::shared_ptr<arrow::RecordBatch>& rows,
                                          uint64_t key) -> arrow::Result<std::shared_ptr<arrow::RecordBatch>> {
    std::vector<TensorBatch> made;
    ARROW_RETURN_NOT_OK(for_each_row(*rows, key, [&](int64_t, TensorBatch row, torch::Generator& chance) {
      for (TensorBatch& one : function(std::move(row), chance)) made.push_back(std::move(one));
    }));
    if (made.empty()) return rows->Slice(0, 0);
    ARROW_ASSIGN_OR_RAISE(const TensorBatch batch, stacked(made));
    return to_rows(batch, rows->schema()->field_names());
  };
}

data::BlockFunction condition_function(std::function<bool(TensorBatch, torch::Generator&)> function) {
  return [function = std::move(function)](const std::shared_ptr<arrow::RecordBatch>& rows,
                                          uint64_t key) -> arrow::Result<std::shared_ptr<arrow::RecordBatch>> {
    std::vector<data::RowRun> kept;
    ARROW_RETURN_NOT_OK(for_each_row(*rows, key, [&](int64_t number, TensorBatch row, torch::Generator& chance) {
      if (function(std::move(row), chance)) kept.push_back({.chunk = 0, .first = number, .rows = 1});
    }));
    if (kept.empty()) return rows->Slice(0, 0);
    return data::gather({rows}, kept, arrow::default_memory_pool());
  };
}

}  // namespace paceline::train
