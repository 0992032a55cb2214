#include "paceline/train/data/map_batches.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <ATen/CPUGeneratorImpl.h>

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

}  // namespace paceline::train
