#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/message.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "paceline/data/file/file_access_internal.h"
#include "paceline/data/format/ipc_batches_internal.h"

namespace paceline::data {
namespace {

static_assert(std::endian::native == std::endian::little, "prefixes of messages are read as they stand");

using File = std::shared_ptr<arrow::io::RandomAccessFile>;
using Piece = IpcBatches::Piece;

// What a message of a stream begins with.
struct Prefix {
  uint32_t continuation;
  int32_t metadata_bytes;
};
constexpr uint32_t kContinuation = 0xFFFFFFFF;

// Pieces of a file as one stream. What is read at once lies in one of them, as messages do.
class Pieces : public arrow::io::InputStream {
 public:
  Pieces(File file, std::vector<Piece> pieces) : file_(std::move(file)), pieces_(std::move(pieces)) {}

  arrow::Status Close() override {
    is_closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return is_closed_; }
  arrow::Result<int64_t> Tell() const override { return told_; }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const auto buffer, Read(bytes));
    std::memcpy(out, buffer->data(), static_cast<size_t>(buffer->size()));
    return buffer->size();
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    if (piece_ < pieces_.size() && done_ == pieces_[piece_].size) {
      ++piece_;
      done_ = 0;
    }
    if (piece_ == pieces_.size()) return std::make_shared<arrow::Buffer>(nullptr, 0);
    const Piece& piece = pieces_[piece_];
    ARROW_ASSIGN_OR_RAISE(auto buffer, file_->ReadAt(piece.first + done_, std::min(bytes, piece.size - done_)));
    done_ += buffer->size();
    told_ += buffer->size();
    return buffer;
  }

 private:
  const File file_;
  const std::vector<Piece> pieces_;
  size_t piece_ = 0;
  int64_t done_ = 0;  // of the piece
  int64_t told_ = 0;
  bool is_closed_ = false;
};

// A piece of a file as a file.
class Part : public arrow::io::RandomAccessFile {
 public:
  Part(File file, Piece piece) : file_(std::move(file)), piece_(piece) {}

  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return arrow::Status::NotImplemented("a part has no place"); }
  arrow::Status Seek(int64_t) override { return arrow::Status::NotImplemented("a part has no place"); }
  arrow::Result<int64_t> Read(int64_t, void*) override { return arrow::Status::NotImplemented("read it by place"); }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t) override {
    return arrow::Status::NotImplemented("read it by place");
  }
  arrow::Result<int64_t> GetSize() override { return piece_.size; }
  arrow::Result<int64_t> ReadAt(int64_t first, int64_t bytes, void* out) override {
    ARROW_RETURN_NOT_OK(check(first, bytes));
    return file_->ReadAt(piece_.first + first, bytes, out);
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t first, int64_t bytes) override {
    ARROW_RETURN_NOT_OK(check(first, bytes));
    return file_->ReadAt(piece_.first + first, bytes);
  }

 private:
  arrow::Status check(int64_t first, int64_t bytes) const {
    if (first >= 0 && bytes >= 0 && bytes <= piece_.size && first <= piece_.size - bytes) return arrow::Status::OK();
    return arrow::Status::IOError("a message names bytes beyond its end (is the file damaged?)");
  }

  const File file_;
  const Piece piece_;
};

arrow::ipc::IpcReadOptions options_for(const std::vector<int>& columns) {
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  options.included_fields = columns;
  return options;
}

// That which gives the number of rows at the least cost.
int smallest_column(const arrow::Schema& schema) {
  const auto& fields = schema.fields();
  const auto has_fixed_size = [](const auto& field) { return arrow::is_fixed_width(field->type()->id()); };
  const auto small = std::ranges::find_if(fields, has_fixed_size);
  return small == fields.end() ? 0 : static_cast<int>(small - fields.begin());
}

arrow::Result<bool> is_stream(arrow::io::RandomAccessFile& file) {
  uint32_t begin = 0;
  ARROW_ASSIGN_OR_RAISE(const int64_t bytes, file.ReadAt(0, sizeof begin, &begin));
  return bytes == sizeof begin && begin == kContinuation;  // a file has "ARROW1" there
}

arrow::Result<IpcBatches> batches_of_file(const File& file) {
  IpcBatches batches;
  ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchFileReader::Open(file, options_for({})));
  batches.schema = reader->schema();
  if (batches.schema->num_fields() == 0) return arrow::Status::Invalid("it has no columns");
  // How many rows a batch has is beside it, not in the footer.
  ARROW_ASSIGN_OR_RAISE(reader,
                        arrow::ipc::RecordBatchFileReader::Open(file, options_for({smallest_column(*batches.schema)})));
  for (int i = 0; i < reader->num_record_batches(); ++i) {
    ARROW_ASSIGN_OR_RAISE(const auto batch, reader->ReadRecordBatch(i));
    batches.rows.push_back(batch->num_rows());
  }
  return batches;
}

arrow::Result<std::shared_ptr<arrow::ipc::RecordBatchStreamReader>> stream_of(const File& file,
                                                                              std::vector<Piece> pieces,
                                                                              const std::vector<int>& columns) {
  return arrow::ipc::RecordBatchStreamReader::Open(std::make_shared<Pieces>(file, std::move(pieces)),
                                                   options_for(columns));
}

arrow::Result<IpcBatches> batches_of_stream(const File& file) {
  IpcBatches batches;
  ARROW_ASSIGN_OR_RAISE(const int64_t size, file->GetSize());
  const arrow::ipc::DictionaryMemo no_dictionaries;
  int64_t next = 0;
  while (next < size) {
    Prefix prefix{};
    ARROW_ASSIGN_OR_RAISE(const auto begin, read_exactly(*file, next, sizeof prefix));
    std::memcpy(&prefix, begin->data(), sizeof prefix);
    if (prefix.continuation != kContinuation || prefix.metadata_bytes < 0) {
      return arrow::Status::Invalid("at byte ", next, " there is no message of a stream (is the file damaged?)");
    }
    if (prefix.metadata_bytes == 0) break;
    const int64_t metadata_first = next + static_cast<int64_t>(sizeof prefix);
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Buffer> metadata,
                          read_exactly(*file, metadata_first, prefix.metadata_bytes));
    ARROW_ASSIGN_OR_RAISE(const auto message, arrow::ipc::Message::Open(metadata, nullptr));
    const int64_t body_first = metadata_first + prefix.metadata_bytes;
    const int64_t body_bytes = message->body_length();
    if (body_bytes < 0 || body_bytes > size - body_first) {
      return arrow::Status::IOError("it ends after ", size, " bytes; a message at byte ", next, " goes on for ",
                                    body_bytes, " (is it truncated?)");
    }
    const Piece piece{.first = next, .size = body_first + body_bytes - next};
    next += piece.size;
    const arrow::ipc::MessageType type = message->type();
    if ((type == arrow::ipc::MessageType::SCHEMA) == batches.is_stream()) {
      return arrow::Status::Invalid("a stream begins with its only schema (is the file damaged?)");
    }
    if (type == arrow::ipc::MessageType::SCHEMA) {
      ARROW_ASSIGN_OR_RAISE(const auto reader, stream_of(file, {piece}, {}));
      batches.schema = reader->schema();
      batches.schema_message = piece;
      if (batches.schema->num_fields() == 0) return arrow::Status::Invalid("it has no columns");
    } else if (type == arrow::ipc::MessageType::DICTIONARY_BATCH) {
      batches.dictionaries.push_back(piece);
    } else if (type == arrow::ipc::MessageType::RECORD_BATCH) {
      batches.places.push_back({.message = piece, .dictionaries = batches.dictionaries.size()});
      const int column = smallest_column(*batches.schema);
      arrow::Result<std::shared_ptr<arrow::RecordBatch>> batch;
      if (batches.dictionaries.empty()) {
        Part body(file, {.first = body_first, .size = body_bytes});
        batch = arrow::ipc::ReadRecordBatch(*metadata, batches.schema, &no_dictionaries, options_for({column}), &body);
      } else {
        batch = read_ipc_batch(file, batches, static_cast<int64_t>(batches.places.size()) - 1, {column});
      }
      ARROW_RETURN_NOT_OK(batch);
      batches.rows.push_back((*batch)->num_rows());
    }
  }
  if (!batches.is_stream()) return arrow::Status::Invalid("it is a stream without a schema");
  return batches;
}

}  // namespace

arrow::Result<IpcBatches> find_ipc_batches(const File& file) {
  ARROW_ASSIGN_OR_RAISE(const bool is_one, is_stream(*file));
  return is_one ? batches_of_stream(file) : batches_of_file(file);
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> read_ipc_batch(const File& file, const IpcBatches& batches,
                                                                  int64_t number, const std::vector<int>& columns) {
  if (!batches.is_stream()) {
    ARROW_ASSIGN_OR_RAISE(const auto reader, arrow::ipc::RecordBatchFileReader::Open(file, options_for(columns)));
    return reader->ReadRecordBatch(static_cast<int>(number));
  }
  const IpcBatches::Place& place = batches.places[static_cast<size_t>(number)];
  std::vector<Piece> pieces{batches.schema_message};
  pieces.insert(pieces.end(), batches.dictionaries.begin(),
                batches.dictionaries.begin() + static_cast<std::ptrdiff_t>(place.dictionaries));
  pieces.push_back(place.message);
  ARROW_ASSIGN_OR_RAISE(const auto reader, stream_of(file, std::move(pieces), columns));
  // Where it is the first batch of the stream, all dictionaries have to be there; behind that they are one by one.
  ARROW_ASSIGN_OR_RAISE(auto batch, reader->Next());
  if (batch == nullptr) return arrow::Status::IOError("the stream ends before its batch ", number);
  return batch;
}

}  // namespace paceline::data
