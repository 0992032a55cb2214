#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/type.h>
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/statistics.h>

#include <algorithm>

#include "paceline/data/format/column_pages_internal.h"
#include "paceline/data/format/decode_leaf_internal.h"
#include "paceline/data/schema/ray_tensor_internal.h"

namespace paceline::data {
namespace {

constexpr int64_t kValuesAtOnce = 1 << 16;

// Values that Parquet keeps as `Stored` and Arrow as `Value`; 0 read means that the column ends before its time.
template <typename Reader, typename Stored, typename Value>
arrow::Status read_values(parquet::ColumnReader& column, int64_t first, Value* values, int64_t count) {
  auto& reader = static_cast<Reader&>(column);
  const int64_t skipped = first == 0 ? 0 : reader.Skip(first);
  if (skipped != first) return arrow::Status::IOError("the column ends after ", skipped, " of ", first, " values");
  std::vector<Stored> stored(std::is_same_v<Stored, Value> ? 0 : static_cast<size_t>(std::min(count, kValuesAtOnce)));
  for (int64_t done = 0; done < count;) {
    Stored* target = nullptr;
    if constexpr (std::is_same_v<Stored, Value>) {
      target = values + done;
    } else {
      target = stored.data();
    }
    int64_t read = 0;
    reader.ReadBatch(std::min(count - done, kValuesAtOnce), nullptr, nullptr, target, &read);
    if (read == 0) return arrow::Status::IOError("the column ends after ", done, " of ", count, " values");
    if constexpr (!std::is_same_v<Stored, Value>) std::copy_n(target, read, values + done);
    done += read;
  }
  return arrow::Status::OK();
}

// The values from the one numbered `first` on.
using Read = arrow::Status (*)(parquet::ColumnReader&, int64_t first, uint8_t*, int64_t count);

template <typename Reader, typename Stored, typename Value>
arrow::Status read_bytes(parquet::ColumnReader& column, int64_t first, uint8_t* bytes, int64_t count) {
  return read_values<Reader, Stored>(column, first, reinterpret_cast<Value*>(bytes), count);
}

// How values of a type are read; nullptr where Parquet keeps them in another form.
Read reader_of(arrow::Type::type type, parquet::Type::type stored) {
  using parquet::DoubleReader;
  using parquet::FloatReader;
  using parquet::Int32Reader;
  using parquet::Int64Reader;
  if (type == arrow::Type::FLOAT && stored == parquet::Type::FLOAT) return read_bytes<FloatReader, float, float>;
  if (type == arrow::Type::DOUBLE && stored == parquet::Type::DOUBLE) return read_bytes<DoubleReader, double, double>;
  if (stored == parquet::Type::INT64) {
    if (type == arrow::Type::INT64) return read_bytes<Int64Reader, int64_t, int64_t>;
    if (type == arrow::Type::UINT64) return read_bytes<Int64Reader, int64_t, int64_t>;
  }
  if (stored != parquet::Type::INT32) return nullptr;
  switch (type) {
    case arrow::Type::INT32:
    case arrow::Type::UINT32:
      return read_bytes<Int32Reader, int32_t, int32_t>;
    case arrow::Type::INT16:
    case arrow::Type::UINT16:
      return read_bytes<Int32Reader, int32_t, int16_t>;
    case arrow::Type::INT8:
    case arrow::Type::UINT8:
      return read_bytes<Int32Reader, int32_t, int8_t>;
    default:
      return nullptr;
  }
}

}  // namespace

bool is_plain_leaf(const arrow::Field& field, const parquet::ColumnDescriptor& column,
                   const parquet::ColumnChunkMetaData& chunk, int64_t rows) {
  const auto layout = tensor_layout(*field.type());
  if (!layout || reader_of(layout->value_type->id(), column.physical_type()) == nullptr) return false;
  if (chunk.num_values() != rows * layout->values_of_row) return false;
  const std::shared_ptr<parquet::Statistics> statistics = chunk.statistics();
  return statistics != nullptr && statistics->HasNullCount() && statistics->null_count() == 0;
}

arrow::Result<std::shared_ptr<arrow::Array>> decode_leaf(const RowGroupPages& row_group, int leaf,
                                                         const std::shared_ptr<arrow::DataType>& type,
                                                         const RowRange& range, arrow::MemoryPool* pool) {
  const TensorLayout layout = *tensor_layout(*type);
  const int64_t count = range.rows * layout.values_of_row;
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> values,
                        arrow::AllocateBuffer(count * layout.value_type->byte_width(), pool));
  ARROW_ASSIGN_OR_RAISE(ColumnPages from, row_group.from(leaf, range.first * layout.values_of_row));
  const std::shared_ptr<parquet::ColumnReader> column =
      parquet::ColumnReader::Make(row_group.row_group.metadata()->schema()->Column(leaf), std::move(from.pages), pool);
  ARROW_RETURN_NOT_OK(
      reader_of(layout.value_type->id(), column->type())(*column, from.values_before, values->mutable_data(), count));
  const auto items = arrow::ArrayData::Make(layout.value_type, count, {nullptr, std::move(values)}, /*null_count=*/0);
  return tensors_of(type, items, range.rows);
}

}  // namespace paceline::data
