#include <arrow/buffer.h>
#include <arrow/io/file.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <vector>

#include "paceline/core/posix/forks.h"
#include "paceline/data/source/block_store_internal.h"
#include "paceline/data/source/file_access_internal.h"
#include "paceline/storage/checksum.h"

namespace paceline::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kChecksumBytes = 32;

std::string checksum_of_text(std::string_view text) {
  return storage::checksum_of(std::as_bytes(std::span(text.data(), text.size())));
}

int64_t bytes_in(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator file(folder, error), end; !error && file != end; file.increment(error)) {
    const auto size = file->file_size(error);
    if (!error) bytes += static_cast<int64_t>(size);
    error.clear();  // a folder, or a file that another process has just renamed
  }
  return bytes;
}

class DiskStore : public BlockStore {
 public:
  DiskStore(fs::path path, const std::string& name, int64_t bytes)
      : path_(std::move(path)), folder_(path_ / name), bytes_(bytes) {}

  arrow::Status open() {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (!error) fs::last_write_time(folder_, fs::file_time_type::clock::now(), error);
    if (error) return arrow::Status::IOError("cannot keep blocks in ", folder_.string(), ": ", error.message());
    used_ = bytes_in(path_);
    return arrow::Status::OK();
  }

  std::shared_ptr<arrow::RecordBatch> find(int64_t block) override { return read(file_of(block)).ValueOr(nullptr); }

  void keep(int64_t block, const std::shared_ptr<arrow::RecordBatch>& rows) override {
    const auto text = text_of(*rows);
    if (!text.ok() || !make_room((*text)->size() + kChecksumBytes)) return;
    static std::atomic<int64_t> number = 0;
    const fs::path unfinished =
        folder_ / (".unfinished_" + std::to_string(::getpid()) + "_" + std::to_string(++number));
    std::error_code error;
    if (write(unfinished, **text).ok()) fs::rename(unfinished, file_of(block), error);
    fs::remove(unfinished, error);
  }

 private:
  fs::path file_of(int64_t block) const { return folder_ / (std::to_string(block) + ".arrows"); }

  static arrow::Result<std::shared_ptr<arrow::Buffer>> text_of(const arrow::RecordBatch& rows) {
    ARROW_ASSIGN_OR_RAISE(const auto output, arrow::io::BufferOutputStream::Create());
    ARROW_ASSIGN_OR_RAISE(const auto writer, arrow::ipc::MakeStreamWriter(output, rows.schema()));
    ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(rows));
    ARROW_RETURN_NOT_OK(writer->Close());
    return output->Finish();
  }

  static arrow::Status write(const fs::path& path, const arrow::Buffer& text) {
    ARROW_ASSIGN_OR_RAISE(const auto file, arrow::io::FileOutputStream::Open(path.string()));
    ARROW_RETURN_NOT_OK(file->Write(text.data(), text.size()));
    ARROW_RETURN_NOT_OK(file->Write(checksum_of_text(view_of(text))));
    return file->Close();
  }

  static arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(const fs::path& path) {
    ARROW_ASSIGN_OR_RAISE(const auto file, arrow::io::ReadableFile::Open(path.string()));
    ARROW_ASSIGN_OR_RAISE(const int64_t size, file->GetSize());
    if (size < kChecksumBytes) return arrow::Status::Invalid("it is cut off");
    ARROW_ASSIGN_OR_RAISE(const auto all, read_exactly(*file, 0, size));
    const auto text = arrow::SliceBuffer(all, 0, size - kChecksumBytes);
    if (checksum_of_text(view_of(*text)) != view_of(*all).substr(static_cast<size_t>(text->size()))) {
      return arrow::Status::Invalid("it is damaged");
    }
    ARROW_ASSIGN_OR_RAISE(const auto reader,
                          arrow::ipc::RecordBatchStreamReader::Open(std::make_shared<arrow::io::BufferReader>(text)));
    return reader->Next();
  }

  // Whether `bytes` more may be kept; counts them.
  bool make_room(int64_t bytes) {
    const std::lock_guard lock(*mutex_);
    if (used_ + bytes > bytes_ && !is_full_) {
      used_ = bytes_in(path_);  // other processes write, too
      drop_others(bytes);
      is_full_ = used_ + bytes > bytes_;
    }
    if (used_ + bytes > bytes_) return false;
    used_ += bytes;
    return true;
  }

  void drop_others(int64_t bytes) {
    std::vector<std::pair<fs::file_time_type, fs::path>> others;
    std::error_code error;
    for (fs::directory_iterator folder(path_, error), end; !error && folder != end; folder.increment(error)) {
      if (folder->is_directory() && folder->path() != folder_) {
        others.emplace_back(folder->last_write_time(error), folder->path());
      }
    }
    std::ranges::sort(others);
    for (const auto& [opened, folder] : others) {
      if (used_ + bytes <= bytes_) return;
      used_ -= bytes_in(folder);
      fs::remove_all(folder, error);
    }
  }

  const fs::path path_;
  const fs::path folder_;
  const int64_t bytes_;
  const PerProcess<std::mutex> mutex_;
  int64_t used_ = 0;
  bool is_full_ = false;  // of blocks of this source
};

}  // namespace

arrow::Result<std::unique_ptr<BlockStore>> disk_store(const std::string& path, const std::string& name, int64_t bytes) {
  auto store = std::make_unique<DiskStore>(path, name, bytes);
  ARROW_RETURN_NOT_OK(store->open());
  return store;
}

}  // namespace paceline::data
