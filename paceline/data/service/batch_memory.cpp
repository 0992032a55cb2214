#include <arrow/io/memory.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>

#include "paceline/data/service/batch_memory_internal.h"

namespace paceline::data {
namespace {

arrow::Status write(const arrow::RecordBatch& batch, arrow::io::OutputStream& output) {
  arrow::ipc::IpcWriteOptions options = arrow::ipc::IpcWriteOptions::Defaults();
  options.alignment = 64;  // as Arrow's own buffers have it
  ARROW_ASSIGN_OR_RAISE(const auto writer, arrow::ipc::MakeStreamWriter(&output, batch.schema(), options));
  ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(batch));
  return writer->Close();
}

}  // namespace

arrow::Result<Slot> write_batch(const arrow::RecordBatch& batch, Arena& arena) {
  arrow::io::MockOutputStream counting;
  ARROW_RETURN_NOT_OK(write(batch, counting));
  ARROW_ASSIGN_OR_RAISE(const Slot slot, arena.allocate(counting.GetExtentBytesWritten()));
  arrow::io::FixedSizeBufferWriter output(arena.buffer_of(slot));
  const arrow::Status written = write(batch, output);
  if (!written.ok()) arena.free(slot.offset);
  ARROW_RETURN_NOT_OK(written);
  return slot;
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> batch_in(std::shared_ptr<arrow::Buffer> bytes) {
  ARROW_ASSIGN_OR_RAISE(const auto reader, arrow::ipc::RecordBatchStreamReader::Open(
                                               std::make_shared<arrow::io::BufferReader>(std::move(bytes))));
  std::shared_ptr<arrow::RecordBatch> batch;
  ARROW_RETURN_NOT_OK(reader->ReadNext(&batch));
  if (batch == nullptr) return arrow::Status::IOError("the data process sent a slot without a batch");
  ARROW_RETURN_NOT_OK(batch->Validate());
  return batch;
}

}  // namespace paceline::data
