#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/util/io_util.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <utility>
#include <vector>

#include "paceline/core/posix/forks.h"
#include "paceline/data/file/file_access_internal.h"
#include "paceline/data/source/block_store_internal.h"
#include "paceline/data/source/cache_folder_internal.h"
#include "paceline/storage/checksum.h"

namespace paceline::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kChecksumBytes = 32;
constexpr std::chrono::seconds kStaysFull{30};  // before it is looked again whether others have made room

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class DiskStore : public BlockStore {
 public:
  DiskStore(fs::path path, const std::string& name, int64_t bytes)
      : path_(std::move(path)), name_(name), folder_(path_ / name), bytes_(bytes) {}

  arrow::Status open() { return use_cache_folder(folder_).Value(&in_use_); }

  std::shared_ptr<arrow::RecordBatch> find(int64_t block) override { return read(block).ValueOr(nullptr); }

  void keep(int64_t block, const std::shared_ptr<arrow::RecordBatch>& rows) override {
    const auto text = text_of(*rows);
    if (!text.ok()) return;
    const std::string checksum = checksum_of(block, view_of(**text));
    const int64_t more = (*text)->size() + kChecksumBytes - bytes_of_block(folder_, block);  // than a damaged one
    if (!make_room(more)) return;
    arrow::Status written = write_block(folder_, block, view_of(**text), checksum);
    if (arrow::internal::ErrnoFromStatus(written) == ENOENT && is_made_again()) {
      written = write_block(folder_, block, view_of(**text), checksum);
    }
    const std::lock_guard lock(room_->mutex);
    room_->being_written -= more;
    if (written.ok()) {
      room_->used += more;
    } else if (!std::exchange(room_->has_failed, true)) {
      std::fprintf(stderr,
                   "paceline: the cache in %s cannot keep a block: %s. Blocks that are not kept are made anew in each "
                   "epoch\n",
                   path_.c_str(), written.message().c_str());
    }
  }

 private:
  // What this process knows of the bytes below path_.
  struct Room {
    std::mutex mutex;
    bool is_counted = false;
    int64_t used = 0;
    int64_t being_written = 0;
    std::chrono::steady_clock::time_point looked_at;  // when there was none
    bool is_said = false;
    bool has_failed = false;  // a write
  };

  // Of the text at this place: one of another block is no less wrong than a damaged one.
  std::string checksum_of(int64_t block, std::string_view text) const {
    storage::Checksum checksum;
    checksum.update(bytes_of(name_ + "/" + std::to_string(block) + "\n"));
    checksum.update(bytes_of(text));
    return checksum.hex();
  }

  static arrow::Result<std::shared_ptr<arrow::Buffer>> text_of(const arrow::RecordBatch& rows) {
    ARROW_ASSIGN_OR_RAISE(const auto output, arrow::io::BufferOutputStream::Create());
    ARROW_ASSIGN_OR_RAISE(const auto writer, arrow::ipc::MakeStreamWriter(output, rows.schema()));
    ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(rows));
    ARROW_RETURN_NOT_OK(writer->Close());
    return output->Finish();
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t block) const {
    ARROW_ASSIGN_OR_RAISE(const auto all, read_block(folder_, block));
    if (all->size() < kChecksumBytes) return arrow::Status::Invalid("it is cut off");
    const auto text = arrow::SliceBuffer(all, 0, all->size() - kChecksumBytes);
    if (checksum_of(block, view_of(*text)) != view_of(*all).substr(static_cast<size_t>(text->size()))) {
      return arrow::Status::Invalid("it is damaged");
    }
    ARROW_ASSIGN_OR_RAISE(const auto reader,
                          arrow::ipc::RecordBatchStreamReader::Open(std::make_shared<arrow::io::BufferReader>(text)));
    return reader->Next();
  }

  // Where somebody has removed the folder.
  bool is_made_again() {
    const std::lock_guard lock(room_->mutex);
    return use_cache_folder(folder_).Value(&in_use_).ok();
  }

  // Whether `more` bytes may be kept; counts them as being written.
  bool make_room(int64_t more) {
    Room& room = *room_;
    const std::lock_guard lock(room.mutex);
    const auto is_too_much = [&] { return room.used + room.being_written + more > bytes_; };
    const auto now = std::chrono::steady_clock::now();
    const bool is_known_full = room.is_said && now - room.looked_at < kStaysFull;
    if (!room.is_counted || (is_too_much() && !is_known_full)) {
      room.is_counted = true;
      std::vector<CacheFolder> folders = cache_folders(path_);  // other processes write, too
      room.used = 0;
      for (const CacheFolder& folder : folders) room.used += folder.bytes;
      for (const CacheFolder& folder : folders) {
        if (!is_too_much()) break;
        if (folder.path != folder_ && drop_cache_folder(folder.path)) room.used -= folder.bytes;
      }
      if (is_too_much()) {
        room.looked_at = now;
        say_full(room);
      }
    }
    if (is_too_much()) return false;
    room.being_written += more;
    return true;
  }

  void say_full(Room& room) const {
    if (!room.is_said) {
      std::fprintf(stderr,
                   "paceline: the cache in %s is full: %lld of %lld bytes are used by this dataset and others that are "
                   "being read. Blocks that find no room are made anew in each epoch; give the cache more bytes\n",
                   path_.c_str(), static_cast<long long>(room.used), static_cast<long long>(bytes_));
    }
    room.is_said = true;
  }

  const fs::path path_;
  const std::string name_;
  const fs::path folder_;
  const int64_t bytes_;
  const PerProcess<Room> room_;
  Descriptor in_use_;  // with room_->mutex
};

}  // namespace

arrow::Result<std::unique_ptr<BlockStore>> disk_store(const std::string& path, const std::string& name, int64_t bytes) {
  auto store = std::make_unique<DiskStore>(path, name, bytes);
  ARROW_RETURN_NOT_OK(store->open());
  return store;
}

}  // namespace paceline::data
