#include "paceline/data/executor/gather.h"

#include <arrow/array.h>
#include <arrow/array/builder_base.h>
#include <arrow/array/concatenate.h>
#include <arrow/buffer.h>
#include <arrow/builder.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/cast.h>
#include <arrow/compute/exec.h>
#include <arrow/compute/initialize.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>

#include <algorithm>
#include <cstring>

namespace paceline::data {
namespace {

using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

using Runs = std::vector<RowRun>;

// Runs that follow each other in one batch, as one.
Runs joined(std::span<const RowRun> runs) {
  Runs all;
  all.reserve(runs.size());
  for (const RowRun& run : runs) {
    if (!all.empty() && all.back().chunk == run.chunk && all.back().first + all.back().rows == run.first) {
      all.back().rows += run.rows;
    } else {
      all.push_back(run);
    }
  }
  return all;
}

// The values of a fixed-size list, of lists of them, or of plain numbers.
struct Leaf {
  std::shared_ptr<arrow::DataType> type;
  int64_t values_per_row = 1;
};

// The type's leaf if a row of it is some bytes of fixed number; a null pointer otherwise.
Leaf leaf_of(const std::shared_ptr<arrow::DataType>& type) {
  Leaf leaf{.type = type};
  while (leaf.type->id() == arrow::Type::FIXED_SIZE_LIST) {
    const auto& list = static_cast<const arrow::FixedSizeListType&>(*leaf.type);
    leaf.values_per_row *= list.list_size();
    leaf.type = list.value_type();
  }
  const bool is_plain = arrow::is_primitive(leaf.type->id()) && leaf.type->id() != arrow::Type::BOOL;
  if (!is_plain && leaf.type->id() != arrow::Type::FIXED_SIZE_BINARY) leaf.type = nullptr;
  return leaf;
}

// Where the bytes of an array's rows begin; nullptr if one of its rows or values is null.
const uint8_t* plain_bytes(const arrow::Array& array, int64_t width) {
  const arrow::ArrayData* data = array.data().get();
  int64_t offset = data->offset;
  while (true) {
    if (data->GetNullCount() != 0) return nullptr;
    if (data->type->id() != arrow::Type::FIXED_SIZE_LIST) break;
    offset *= static_cast<const arrow::FixedSizeListType&>(*data->type).list_size();
    data = data->child_data[0].get();
    offset += data->offset;
  }
  return data->buffers[1]->data() + offset * width;
}

// The array of `type` over the bytes of its values.
std::shared_ptr<arrow::ArrayData> wrapped(const std::shared_ptr<arrow::DataType>& type, int64_t rows,
                                          std::shared_ptr<arrow::Buffer> bytes) {
  if (type->id() != arrow::Type::FIXED_SIZE_LIST) {
    return arrow::ArrayData::Make(type, rows, {nullptr, std::move(bytes)}, /*null_count=*/0);
  }
  const auto& list = static_cast<const arrow::FixedSizeListType&>(*type);
  auto items = wrapped(list.value_type(), rows * list.list_size(), std::move(bytes));
  return arrow::ArrayData::Make(type, rows, {nullptr}, {std::move(items)}, /*null_count=*/0);
}

// A null pointer where some row of the column is not just bytes.
arrow::Result<std::shared_ptr<arrow::Array>> gather_bytes(const Batches& batches, int column, const Runs& runs,
                                                          int64_t rows, arrow::MemoryPool* pool) {
  const std::shared_ptr<arrow::DataType>& type = batches.front()->schema()->field(column)->type();
  const Leaf leaf = leaf_of(type);
  if (leaf.type == nullptr) return nullptr;
  const int64_t width = leaf.type->byte_width();
  std::vector<const uint8_t*> sources(batches.size(), nullptr);
  for (const RowRun& run : runs) {
    const auto batch = static_cast<size_t>(run.chunk);
    if (sources[batch] == nullptr) sources[batch] = plain_bytes(*batches[batch]->column(column), width);
    if (sources[batch] == nullptr) return nullptr;
  }
  const int64_t row_bytes = width * leaf.values_per_row;
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> bytes, arrow::AllocateBuffer(rows * row_bytes, pool));
  uint8_t* target = bytes->mutable_data();
  for (const RowRun& run : runs) {
    const uint8_t* source = sources[static_cast<size_t>(run.chunk)] + run.first * row_bytes;
    std::memcpy(target, source, static_cast<size_t>(run.rows * row_bytes));
    target += run.rows * row_bytes;
  }
  return arrow::MakeArray(wrapped(type, rows, std::move(bytes)));
}

arrow::Result<std::shared_ptr<arrow::Array>> gather_any(const Batches& batches, int column, const Runs& runs,
                                                        int64_t rows, arrow::MemoryPool* pool) {
  const std::shared_ptr<arrow::DataType>& type = batches.front()->schema()->field(column)->type();
  std::unique_ptr<arrow::ArrayBuilder> builder;
  ARROW_RETURN_NOT_OK(arrow::MakeBuilderExactIndex(pool, type, &builder));
  ARROW_RETURN_NOT_OK(builder->Reserve(rows));
  for (const RowRun& run : runs) {
    const arrow::ArraySpan span(*batches[static_cast<size_t>(run.chunk)]->column(column)->data());
    ARROW_RETURN_NOT_OK(builder->AppendArraySlice(span, run.first, run.rows));
  }
  std::shared_ptr<arrow::Array> array;
  ARROW_RETURN_NOT_OK(builder->Finish(&array));
  return array;
}

arrow::Result<Batches> with_one_schema(const Batches& batches, arrow::MemoryPool* pool) {
  std::vector<std::shared_ptr<arrow::Schema>> schemas;
  for (const auto& batch : batches) schemas.push_back(batch->schema()->RemoveMetadata());
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Schema> schema,
                        arrow::UnifySchemas(schemas, arrow::Field::MergeOptions::Permissive()));
  Batches same;
  for (const auto& batch : batches) {
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Table> table, arrow::Table::FromRecordBatches({batch}));
    arrow::Result<std::shared_ptr<arrow::Table>> promoted =
        arrow::PromoteTableToSchema(table, schema, arrow::compute::CastOptions::Safe(), pool);
    if (!promoted.ok()) {
      return promoted.status().WithMessage("blocks of one data set have columns of different types:\n",
                                           batch->schema()->ToString(), "\nand\n", schema->ToString(), "\n",
                                           promoted.status().message());
    }
    ARROW_ASSIGN_OR_RAISE(auto converted, (*promoted)->CombineChunksToBatch(pool));
    same.push_back(std::move(converted));
  }
  return same;
}

arrow::Result<Batches> alike(const Batches& batches, arrow::MemoryPool* pool) {
  const std::shared_ptr<arrow::Schema>& schema = batches.front()->schema();
  const auto differs = [&](const auto& batch) { return !batch->schema()->Equals(*schema, /*check_metadata=*/false); };
  if (std::ranges::none_of(batches, differs)) return batches;
  return with_one_schema(batches, pool);
}

}  // namespace

arrow::Result<std::shared_ptr<arrow::RecordBatch>> take_all(const Batches& batches, const std::vector<int64_t>& rows,
                                                            arrow::MemoryPool* pool) {
  static const arrow::Status kInitialized = arrow::compute::Initialize();
  ARROW_RETURN_NOT_OK(kInitialized);
  ARROW_ASSIGN_OR_RAISE(const Batches same, alike(batches, pool));
  const auto count = static_cast<int64_t>(rows.size());
  const auto places = std::make_shared<arrow::Int64Array>(count, arrow::Buffer::Wrap(rows));
  arrow::compute::ExecContext context(pool);
  context.set_use_threads(false);
  arrow::ArrayVector columns;
  for (int column = 0; column < same.front()->num_columns(); ++column) {
    arrow::ArrayVector parts;
    for (const auto& batch : same) parts.push_back(batch->column(column));
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Array> whole, arrow::Concatenate(parts, pool));
    ARROW_ASSIGN_OR_RAISE(
        auto taken, arrow::compute::Take(*whole, *places, arrow::compute::TakeOptions::NoBoundsCheck(), &context));
    columns.push_back(std::move(taken));
  }
  return arrow::RecordBatch::Make(same.front()->schema(), count, std::move(columns));
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> gather(const Batches& batches, std::span<const RowRun> all,
                                                          arrow::MemoryPool* pool) {
  const Runs runs = joined(all);
  if (runs.empty()) return batches.front()->Slice(0, 0);
  if (runs.size() == 1) return batches[static_cast<size_t>(runs[0].chunk)]->Slice(runs[0].first, runs[0].rows);
  ARROW_ASSIGN_OR_RAISE(const Batches same, alike(batches, pool));
  const std::shared_ptr<arrow::Schema>& schema = same.front()->schema();
  int64_t count = 0;
  for (const RowRun& run : runs) count += run.rows;
  arrow::ArrayVector columns;
  for (int column = 0; column < schema->num_fields(); ++column) {
    ARROW_ASSIGN_OR_RAISE(auto array, gather_bytes(same, column, runs, count, pool));
    if (array == nullptr) {
      ARROW_ASSIGN_OR_RAISE(array, gather_any(same, column, runs, count, pool));
    }
    columns.push_back(std::move(array));
  }
  return arrow::RecordBatch::Make(schema, count, std::move(columns));
}

}  // namespace paceline::data
