#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <parquet/column_page.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "paceline/data/format/column_pages_internal.h"

namespace paceline::data {
namespace {

// A part of a file. The reader of pages looks at a header (Peek), and then reads the page or, where it is not wanted,
// "reads" it to pass over it: parquet has no other way to say so. Of those nothing is read.
class PageStream : public arrow::io::InputStream {
 public:
  PageStream(std::shared_ptr<arrow::io::RandomAccessFile> file, int64_t begin, int64_t end, int64_t bytes_of_look,
             arrow::MemoryPool* pool)
      : file_(std::move(file)), at_(begin), end_(end), bytes_of_look_(bytes_of_look), pool_(pool) {
    set_mode(arrow::io::FileMode::READ);
  }

  /// What is read next is not wanted.
  void pass_over_next() { passes_over_ = true; }

  arrow::Result<std::string_view> Peek(int64_t bytes) override {
    bytes = std::min(bytes, end_ - at_);
    if (bytes > ahead()) {
      ARROW_ASSIGN_OR_RAISE(ahead_, file_->ReadAt(at_, std::min(std::max(bytes, bytes_of_look_), end_ - at_)));
      ahead_begin_ = at_;
    }
    return std::string_view(reinterpret_cast<const char*>(ahead_data()), static_cast<size_t>(std::min(bytes, ahead())));
  }

  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    bytes = std::clamp<int64_t>(bytes, 0, end_ - at_);
    if (std::exchange(passes_over_, false)) {
      at_ += bytes;
      return bytes;
    }
    const int64_t there = std::min(bytes, ahead());
    if (there > 0) std::memcpy(out, ahead_data(), static_cast<size_t>(there));
    int64_t read = 0;
    if (there < bytes) {
      ARROW_ASSIGN_OR_RAISE(read, file_->ReadAt(at_ + there, bytes - there, static_cast<uint8_t*>(out) + there));
    }
    at_ += there + read;
    return there + read;
  }

  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    if (passes_over_) {
      ARROW_RETURN_NOT_OK(Read(bytes, nullptr));
      return std::make_shared<arrow::Buffer>(static_cast<const uint8_t*>(nullptr), 0);
    }
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::ResizableBuffer> buffer,
                          arrow::AllocateResizableBuffer(std::clamp<int64_t>(bytes, 0, end_ - at_), pool_));
    ARROW_ASSIGN_OR_RAISE(const int64_t read, Read(bytes, buffer->mutable_data()));
    ARROW_RETURN_NOT_OK(buffer->Resize(read, /*shrink_to_fit=*/false));
    return buffer;
  }

  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return at_; }

 private:
  // Bytes that are read already, from at_ on.
  int64_t ahead() const {
    const int64_t end = ahead_ == nullptr ? 0 : ahead_begin_ + ahead_->size();
    return at_ < ahead_begin_ ? 0 : std::max<int64_t>(end - at_, 0);
  }
  const uint8_t* ahead_data() const { return ahead_ == nullptr ? nullptr : ahead_->data() + (at_ - ahead_begin_); }

  const std::shared_ptr<arrow::io::RandomAccessFile> file_;
  int64_t at_;
  const int64_t end_;
  const int64_t bytes_of_look_;
  arrow::MemoryPool* const pool_;
  std::shared_ptr<arrow::Buffer> ahead_;
  int64_t ahead_begin_ = 0;
  bool passes_over_ = false;
};

struct Opened {
  std::shared_ptr<PageStream> stream;
  std::unique_ptr<parquet::PageReader> pages;
};

}  // namespace

// The readers of values ask how many to pass over before they look at the first page, so the headers are gone through
// twice: to find the first page that is wanted, and to read from there on.
arrow::Result<ColumnPages> RowGroupPages::from(int leaf, int64_t first) const {
  const auto metadata = row_group.metadata()->ColumnChunk(leaf);
  if (file == nullptr || first == 0 || metadata->crypto_metadata() != nullptr) {
    return ColumnPages{.pages = row_group.GetColumnPageReader(leaf), .values_before = first};
  }
  const bool has_dictionary = metadata->has_dictionary_page() && metadata->dictionary_page_offset() > 0;
  const int64_t begin = has_dictionary ? std::min(metadata->dictionary_page_offset(), metadata->data_page_offset())
                                       : metadata->data_page_offset();
  const int64_t bytes = metadata->total_compressed_size();
  ARROW_ASSIGN_OR_RAISE(const int64_t size, file->GetSize());
  if (begin < 0 || bytes < 0 || begin > size || bytes > size - begin) {
    return arrow::Status::IOError("a column says that its ", bytes, " bytes begin at ", begin, "; the file has ", size);
  }
  const auto open = [&] {
    Opened opened;
    opened.stream = std::make_shared<PageStream>(file, begin, begin + bytes, bytes_of_look, properties.memory_pool());
    opened.pages = parquet::PageReader::Open(opened.stream, metadata->num_values(), metadata->compression(), properties,
                                             *row_group.metadata()->schema()->Column(leaf), is_always_compressed);
    return opened;
  };
  const Opened look = open();
  int64_t pages_before = 0;
  int64_t values = 0;  // of these
  look.pages->set_data_page_filter([&](const parquet::DataPageStats& page) {
    if (page.num_values > first - values) return false;
    values += std::max(page.num_values, 0);
    ++pages_before;
    look.stream->pass_over_next();
    return true;
  });
  while (const auto page = look.pages->NextPage()) {
    if (page->type() != parquet::PageType::DICTIONARY_PAGE) break;
  }
  Opened opened = open();
  opened.pages->set_data_page_filter([stream = opened.stream.get(), left = pages_before](const auto&) mutable {
    if (left == 0) return false;
    --left;
    stream->pass_over_next();
    return true;
  });
  return ColumnPages{.pages = std::move(opened.pages), .values_before = first - values};
}

}  // namespace paceline::data
