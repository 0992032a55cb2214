#include "paceline/data/function/block_transfer.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <cstring>

namespace paceline::data {
namespace {

using Array = arrow::Result<std::shared_ptr<arrow::Array>>;

// Writes to a region from its beginning on.
class RegionStream : public arrow::io::OutputStream {
 public:
  explicit RegionStream(SharedRegion& region) : region_(region) { set_mode(arrow::io::FileMode::WRITE); }
  using arrow::io::Writable::Write;
  arrow::Status Write(const void* data, int64_t bytes) override {
    ARROW_RETURN_NOT_OK(region_.reserve(position_ + bytes));
    if (bytes > 0) std::memcpy(region_.data() + position_, data, static_cast<size_t>(bytes));
    position_ += bytes;
    region_.has_written(position_);
    return arrow::Status::OK();
  }
  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return position_; }

 private:
  SharedRegion& region_;
  int64_t position_ = 0;
};

// Of values that stand one after the other, as fixed-size lists of them do.
arrow::Result<std::shared_ptr<arrow::ArrayData>> flat(const std::shared_ptr<arrow::DataType>& type, int64_t length,
                                                      int64_t first, const std::shared_ptr<SharedRegion>& region) {
  if (length < 0 || length > region->size()) {
    return arrow::Status::Invalid("a region of ", region->size(), " bytes has no room for ", length, " values");
  }
  if (type->id() == arrow::Type::FIXED_SIZE_LIST) {
    const auto& list = static_cast<const arrow::FixedSizeListType&>(*type);
    ARROW_ASSIGN_OR_RAISE(auto values, flat(list.value_type(), length * list.list_size(), first, region));
    return arrow::ArrayData::Make(type, length, {nullptr}, {std::move(values)}, 0);
  }
  const int bits = type->bit_width();
  if (bits <= 0 || bits % 8 != 0 || type->num_fields() > 0) {
    return arrow::Status::Invalid("values of type ", *type, " have no fixed width of bytes");
  }
  ARROW_ASSIGN_OR_RAISE(auto values, part_of(region, first, length * (bits / 8)));
  return arrow::ArrayData::Make(type, length, {nullptr, std::move(values)}, 0);
}

Array from_stream(std::shared_ptr<arrow::Buffer> stream) {
  auto reader = std::make_shared<arrow::io::BufferReader>(std::move(stream));
  ARROW_ASSIGN_OR_RAISE(auto batches, arrow::ipc::RecordBatchStreamReader::Open(reader));
  std::shared_ptr<arrow::RecordBatch> batch;
  ARROW_RETURN_NOT_OK(batches->ReadNext(&batch));
  if (batch == nullptr || batch->num_columns() != 1) return arrow::Status::Invalid("no batch of one column");
  return batch->column(0);
}

Array read_column(const Json& place, const arrow::DataType& type, int64_t rows, const arrow::RecordBatch& block,
                  const std::shared_ptr<SharedRegion>& region) {
  if (place.contains("input")) {
    const int64_t number = place["input"];
    if (number < 0 || number >= block.num_columns()) return arrow::Status::Invalid("there is no column ", number);
    const std::shared_ptr<arrow::Array> column = block.column(static_cast<int>(number));
    // Names inside of lists may be others.
    if (column->type()->Equals(type)) return column;
    return column->View(type.GetSharedPtr());
  }
  if (place.contains("flat")) {
    ARROW_ASSIGN_OR_RAISE(auto data, flat(type.GetSharedPtr(), rows, place["flat"], region));
    return arrow::MakeArray(data);
  }
  const auto [first, bytes] = place.at("stream").get<std::pair<int64_t, int64_t>>();
  ARROW_ASSIGN_OR_RAISE(auto stream, part_of(region, first, bytes));
  return from_stream(std::move(stream));
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(const FunctionMade& made, const std::string& schema_bytes,
                                                        const arrow::RecordBatch& block,
                                                        const std::shared_ptr<SharedRegion>& region) {
  arrow::io::BufferReader schema_reader(std::make_shared<arrow::Buffer>(schema_bytes));
  arrow::ipc::DictionaryMemo dictionaries;
  ARROW_ASSIGN_OR_RAISE(const auto schema, arrow::ipc::ReadSchema(&schema_reader, &dictionaries));
  if (made.columns.size() != static_cast<size_t>(schema->num_fields())) {
    return arrow::Status::Invalid(made.columns.size(), " columns for a schema of ", schema->num_fields());
  }
  ARROW_RETURN_NOT_OK(region->reserve(made.output_bytes));
  region->has_written(made.output_bytes);
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (const auto& field : schema->fields()) {
    ARROW_ASSIGN_OR_RAISE(auto column,
                          read_column(made.columns[columns.size()], *field->type(), made.rows, block, region));
    if (column->length() != made.rows) {
      return arrow::Status::Invalid("the column '", field->name(), "' has ", column->length(), " rows, not ",
                                    made.rows);
    }
    columns.push_back(std::move(column));
  }
  return arrow::RecordBatch::Make(schema, made.rows, std::move(columns));
}

}  // namespace

arrow::Result<int64_t> write_block(const arrow::RecordBatch& block, SharedRegion& region) {
  RegionStream stream(region);
  arrow::ipc::IpcWriteOptions options = arrow::ipc::IpcWriteOptions::Defaults();
  options.alignment = 64;
  ARROW_ASSIGN_OR_RAISE(auto writer, arrow::ipc::MakeStreamWriter(&stream, block.schema(), options));
  ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(block));
  ARROW_RETURN_NOT_OK(writer->Close());
  return stream.Tell();
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> read_made(const FunctionMade& made, const std::string& schema,
                                                             const arrow::RecordBatch& block,
                                                             const std::shared_ptr<SharedRegion>& region) {
  try {
    return read(made, schema, block, region);
  } catch (const Json::exception& error) {
    return arrow::Status::Invalid("the columns ", made.columns.dump(), ": ", error.what());
  }
}

}  // namespace paceline::data
