#include "paceline/data/rows/gather.h"

#include <arrow/array.h>
#include <arrow/array/builder_base.h>
#include <arrow/array/concatenate.h>
#include <arrow/buffer.h>
#include <arrow/builder.h>
#include <arrow/compute/cast.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>

#include <algorithm>
#include <cstring>

#include "paceline/data/rows/row_copies.h"

namespace paceline::data {
namespace {

using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

using Runs = std::vector<RowRun>;

constexpr size_t kRunsFetchedAhead = 8;
constexpr int64_t kBytesFetched = 512;  // of a run; the processor goes on by itself
constexpr int64_t kCacheLine = 64;

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

// A null pointer where some row of the column is not just bytes.
arrow::Result<std::shared_ptr<arrow::Array>> gather_bytes(const Batches& batches, int column, const Runs& runs,
                                                          int64_t rows, arrow::MemoryPool* pool) {
  const std::shared_ptr<arrow::DataType>& type = batches.front()->schema()->field(column)->type();
  const Leaf leaf = leaf_of(type);
  if (leaf.type == nullptr) return nullptr;
  std::vector<const uint8_t*> sources(batches.size(), nullptr);
  for (const RowRun& run : runs) {
    const auto batch = static_cast<size_t>(run.chunk);
    if (sources[batch] == nullptr) sources[batch] = plain_bytes(*batches[batch]->column(column), leaf);
    if (sources[batch] == nullptr) return nullptr;
  }
  const int64_t row_bytes = leaf.bytes_of_row;
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> bytes, arrow::AllocateBuffer(rows * row_bytes, pool));
  uint8_t* target = bytes->mutable_data();
  const auto source_of = [&](const RowRun& run) {
    return sources[static_cast<size_t>(run.chunk)] + run.first * row_bytes;
  };
  for (size_t i = 0; i < runs.size(); ++i) {
    const RowRun& run = runs[i];
    if (i + kRunsFetchedAhead < runs.size()) {
      const uint8_t* const next = source_of(runs[i + kRunsFetchedAhead]);
      for (int64_t line = 0; line < std::min(row_bytes, kBytesFetched); line += kCacheLine) {
        __builtin_prefetch(next + line);
      }
    }
    const uint8_t* const source = source_of(run);
    std::memcpy(target, source, static_cast<size_t>(run.rows * row_bytes));
    target += run.rows * row_bytes;
  }
  return arrow::MakeArray(wrapped(type, rows, std::move(bytes)));
}

bool has_dictionary(const arrow::DataType& type) {
  return type.id() == arrow::Type::DICTIONARY ||
         std::ranges::any_of(type.fields(), [](const auto& field) { return has_dictionary(*field->type()); });
}

// `array` with indices of the type `wanted`, if they fit into it: what chunks together have words for may be more.
arrow::Result<std::shared_ptr<arrow::Array>> with_index_of(const std::shared_ptr<arrow::Array>& array,
                                                           const std::shared_ptr<arrow::DataType>& wanted) {
  const auto& words = static_cast<const arrow::DictionaryArray&>(*array);
  auto indices =
      arrow::compute::Cast(*words.indices(), static_cast<const arrow::DictionaryType&>(*wanted).index_type());
  if (!indices.ok()) return array;
  return arrow::DictionaryArray::FromArrays(wanted, *indices, words.dictionary());
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
      return promoted.status().WithMessage("blocks of one dataset have columns of different types:\n",
                                           batch->schema()->ToString(), "\nand\n", schema->ToString(), "\n",
                                           promoted.status().message());
    }
    ARROW_ASSIGN_OR_RAISE(auto converted, (*promoted)->CombineChunksToBatch(pool));
    same.push_back(std::move(converted));
  }
  return same;
}

}  // namespace

Leaf leaf_of(const std::shared_ptr<arrow::DataType>& type) {
  Leaf leaf{.type = type};
  int64_t values_of_row = 1;
  while (leaf.type->id() == arrow::Type::FIXED_SIZE_LIST) {
    const auto& list = static_cast<const arrow::FixedSizeListType&>(*leaf.type);
    values_of_row *= list.list_size();
    leaf.type = list.value_type();
  }
  const bool is_plain = arrow::is_primitive(leaf.type->id()) && leaf.type->id() != arrow::Type::BOOL;
  if (!is_plain && leaf.type->id() != arrow::Type::FIXED_SIZE_BINARY) return {};
  leaf.bytes_of_row = values_of_row * leaf.type->byte_width();
  return leaf.bytes_of_row > 0 ? leaf : Leaf();
}

const uint8_t* plain_bytes(const arrow::Array& array, const Leaf& leaf) {
  const arrow::ArrayData* data = array.data().get();
  int64_t offset = data->offset;
  while (true) {
    if (data->GetNullCount() != 0) return nullptr;
    if (data->type->id() != arrow::Type::FIXED_SIZE_LIST) break;
    offset *= static_cast<const arrow::FixedSizeListType&>(*data->type).list_size();
    data = data->child_data[0].get();
    offset += data->offset;
  }
  static const uint8_t kNoRows = 0;
  return data->buffers[1] == nullptr ? &kNoRows : data->buffers[1]->data() + offset * leaf.type->byte_width();
}

std::shared_ptr<arrow::ArrayData> wrapped(const std::shared_ptr<arrow::DataType>& type, int64_t rows,
                                          std::shared_ptr<arrow::Buffer> bytes) {
  if (type->id() != arrow::Type::FIXED_SIZE_LIST) {
    return arrow::ArrayData::Make(type, rows, {nullptr, std::move(bytes)}, /*null_count=*/0);
  }
  const auto& list = static_cast<const arrow::FixedSizeListType&>(*type);
  auto items = wrapped(list.value_type(), rows * list.list_size(), std::move(bytes));
  return arrow::ArrayData::Make(type, rows, {nullptr}, {std::move(items)}, /*null_count=*/0);
}

arrow::Result<std::shared_ptr<arrow::Array>> gather_any(const arrow::ArrayVector& parts, std::span<const RowRun> runs,
                                                        arrow::MemoryPool* pool) {
  const std::shared_ptr<arrow::DataType>& type = parts.front()->type();
  const bool is_dictionary = type->id() == arrow::Type::DICTIONARY;
  std::unique_ptr<arrow::ArrayBuilder> builder;
  const arrow::Status made = arrow::MakeBuilder(pool, type, &builder);
  // Builders know no extension types, and would let the index of a dictionary in a list run over.
  if (made.IsNotImplemented() || (!is_dictionary && has_dictionary(*type))) {
    arrow::ArrayVector slices;
    for (const RowRun& run : runs) slices.push_back(parts[static_cast<size_t>(run.chunk)]->Slice(run.first, run.rows));
    return arrow::Concatenate(slices, pool);
  }
  ARROW_RETURN_NOT_OK(made);
  for (const RowRun& run : runs) {
    const arrow::ArraySpan span(*parts[static_cast<size_t>(run.chunk)]->data());
    ARROW_RETURN_NOT_OK(builder->AppendArraySlice(span, run.first, run.rows));
  }
  std::shared_ptr<arrow::Array> array;
  ARROW_RETURN_NOT_OK(builder->Finish(&array));
  if (is_dictionary && !array->type()->Equals(*type)) return with_index_of(array, type);
  return array;
}

std::shared_ptr<arrow::RecordBatch> batch_of(const arrow::Schema& schema, int64_t rows, arrow::ArrayVector arrays) {
  arrow::FieldVector fields = schema.fields();
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!arrays[i]->type()->Equals(*fields[i]->type())) fields[i] = fields[i]->WithType(arrays[i]->type());
  }
  return arrow::RecordBatch::Make(arrow::schema(std::move(fields), schema.metadata()), rows, std::move(arrays));
}

arrow::Result<Batches> alike(const Batches& batches, arrow::MemoryPool* pool) {
  const std::shared_ptr<arrow::Schema>& schema = batches.front()->schema();
  const auto differs = [&](const auto& batch) { return !batch->schema()->Equals(*schema, /*check_metadata=*/false); };
  if (std::ranges::none_of(batches, differs)) return batches;
  return with_one_schema(batches, pool);
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> gather(const Batches& batches, std::span<const RowRun> all,
                                                          arrow::MemoryPool* pool, bool copies) {
  const Runs runs = joined(all);
  if (runs.empty()) return batches.front()->Slice(0, 0);
  if (runs.size() == 1 && !copies)
    return batches[static_cast<size_t>(runs[0].chunk)]->Slice(runs[0].first, runs[0].rows);
  ARROW_ASSIGN_OR_RAISE(const Batches same, alike(batches, pool));
  const std::shared_ptr<arrow::Schema>& schema = same.front()->schema();
  int64_t count = 0;
  for (const RowRun& run : runs) count += run.rows;
  arrow::ArrayVector columns;
  for (int column = 0; column < schema->num_fields(); ++column) {
    ARROW_ASSIGN_OR_RAISE(auto array, gather_bytes(same, column, runs, count, pool));
    if (array == nullptr) {
      arrow::ArrayVector parts;
      for (const auto& batch : same) parts.push_back(batch->column(column));
      ARROW_ASSIGN_OR_RAISE(array, gather_any(parts, runs, pool));
    }
    columns.push_back(std::move(array));
  }
  return batch_of(*schema, count, std::move(columns));
}

}  // namespace paceline::data
