#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/buffer.h>
#include <arrow/compute/cast.h>
#include <arrow/type.h>
#include <arrow/util/bit_util.h>
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/level_conversion.h>
#include <parquet/schema.h>

#include "paceline/data/format/column_pages_internal.h"
#include "paceline/data/format/decode_leaf_internal.h"

namespace paceline::data {
namespace {

using parquet::internal::BinaryRecordReader;
using parquet::internal::RecordReader;

// The type in which Parquet's values are read; null for columns that are not read here. It is another than the field's
// for small integers.
std::shared_ptr<arrow::DataType> read_type(const arrow::DataType& type, parquet::Type::type stored) {
  switch (type.id()) {
    case arrow::Type::BOOL:
      return stored == parquet::Type::BOOLEAN ? arrow::boolean() : nullptr;
    case arrow::Type::FLOAT:
      return stored == parquet::Type::FLOAT ? arrow::float32() : nullptr;
    case arrow::Type::DOUBLE:
      return stored == parquet::Type::DOUBLE ? arrow::float64() : nullptr;
    case arrow::Type::INT64:
      return stored == parquet::Type::INT64 ? arrow::int64() : nullptr;
    case arrow::Type::UINT64:
      return stored == parquet::Type::INT64 ? arrow::uint64() : nullptr;
    case arrow::Type::UINT32:
      return stored == parquet::Type::INT32 ? arrow::uint32() : nullptr;
    case arrow::Type::DATE32:
      return stored == parquet::Type::INT32 ? arrow::date32() : nullptr;
    case arrow::Type::INT8:
    case arrow::Type::INT16:
    case arrow::Type::INT32:
    case arrow::Type::UINT8:
    case arrow::Type::UINT16:
      return stored == parquet::Type::INT32 ? arrow::int32() : nullptr;
    case arrow::Type::STRING:
      return stored == parquet::Type::BYTE_ARRAY ? arrow::utf8() : nullptr;
    case arrow::Type::BINARY:
      return stored == parquet::Type::BYTE_ARRAY ? arrow::binary() : nullptr;
    default:
      return nullptr;
  }
}

arrow::Result<std::shared_ptr<arrow::Array>> take_fixed(RecordReader& reader,
                                                        const std::shared_ptr<arrow::DataType>& type, int64_t rows,
                                                        arrow::MemoryPool* pool) {
  const int64_t nulls = reader.nullable_values() ? reader.null_count() : 0;
  std::shared_ptr<arrow::Buffer> validity = reader.nullable_values() ? reader.ReleaseIsValid() : nullptr;
  std::shared_ptr<arrow::Buffer> values = reader.ReleaseValues();
  if (type->id() == arrow::Type::BOOL) {  // a byte each
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> bits, arrow::AllocateEmptyBitmap(rows, pool));
    for (int64_t i = 0; i < rows; ++i) arrow::bit_util::SetBitTo(bits->mutable_data(), i, values->data()[i] != 0);
    values = std::move(bits);
  }
  if (nulls == 0) validity = nullptr;
  return arrow::MakeArray(arrow::ArrayData::Make(type, rows, {std::move(validity), std::move(values)}, nulls));
}

}  // namespace

bool is_flat(const arrow::Field& field, const parquet::ColumnDescriptor& column) {
  return column.max_repetition_level() == 0 && column.max_definition_level() <= 1 &&
         column.path()->ToDotVector().size() == 1 && read_type(*field.type(), column.physical_type()) != nullptr;
}

arrow::Result<std::shared_ptr<arrow::Array>> decode_flat(const RowGroupPages& row_group, int leaf,
                                                         const std::shared_ptr<arrow::DataType>& type,
                                                         const RowRange& range, arrow::MemoryPool* pool) {
  const parquet::ColumnDescriptor* const column = row_group.row_group.metadata()->schema()->Column(leaf);
  const auto stored = read_type(*type, column->physical_type());
  const std::shared_ptr<RecordReader> reader =
      RecordReader::Make(column, parquet::internal::LevelInfo::ComputeLevelInfo(column), pool,
                         /*read_dictionary=*/false, /*read_dense_for_nullable=*/false, stored);
  ARROW_ASSIGN_OR_RAISE(ColumnPages from, row_group.from(leaf, range.first));
  reader->SetPageReader(std::move(from.pages));
  const int64_t skipped = from.values_before == 0 ? 0 : reader->SkipRecords(from.values_before);
  reader->Reserve(range.rows);
  int64_t read = 0;
  while (read < range.rows) {
    const int64_t more = reader->ReadRecords(range.rows - read);
    if (more == 0) break;
    read += more;
  }
  if (skipped != from.values_before || read != range.rows) {
    return arrow::Status::IOError("the column ends after ", range.first - from.values_before + skipped + read, " of ",
                                  range.first + range.rows, " rows");
  }
  std::shared_ptr<arrow::Array> array;
  if (column->physical_type() == parquet::Type::BYTE_ARRAY) {
    auto* const binary = dynamic_cast<BinaryRecordReader*>(reader.get());
    if (binary == nullptr) return arrow::Status::Invalid("the column's text cannot be read");
    ARROW_ASSIGN_OR_RAISE(array, arrow::Concatenate(binary->GetBuilderChunks(), pool));
  } else {
    ARROW_ASSIGN_OR_RAISE(array, take_fixed(*reader, stored, range.rows, pool));
  }
  if (array->type()->Equals(*type)) return array;
  return arrow::compute::Cast(*array, type);
}

}  // namespace paceline::data
