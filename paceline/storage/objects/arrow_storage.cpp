#include "paceline/storage/objects/arrow_storage.h"

#include <arrow/buffer.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/io_util.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <mutex>

#include "paceline/core/posix/descriptor.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/objects/parallel.h"
#include "paceline/storage/objects/scheme.h"
#include "paceline/storage/objects/transience.h"

namespace paceline::storage {
namespace {

namespace afs = arrow::fs;

constexpr int64_t kPart = int64_t{10} << 20;       // what Arrow sends as one part of an S3 upload
constexpr int64_t kPartsUnderWay = 8;              // of one upload; what it needs in memory
constexpr int64_t kBlock = int64_t{8} << 20;       // what one request reads
constexpr int64_t kMostCopied = int64_t{5} << 30;  // by one request to S3
constexpr size_t kBlocksKept = 4;                  // by one reader

bool says_missing(const arrow::Status& status) {
  return status.IsIOError() && arrow::internal::ErrnoFromStatus(status) == ENOENT;
}

// "DOING s3://…: what Arrow says; what to do". What this machine is to blame for keeps its errno.
arrow::Status explain(const char* doing, const Location& location, const arrow::Status& status) {
  if (status.ok()) return status;
  const Scheme* const scheme = scheme_of(location.text());
  return status.WithMessage(doing, " ", location, ": ", location.redacted(status.message()),
                            remedy(status, scheme == nullptr ? "" : scheme->credentials));
}

class BlockReader final : public FileReader {
 public:
  BlockReader(std::shared_ptr<arrow::io::RandomAccessFile> file, int64_t size, Location location)
      : file_(std::move(file)), size_(size), location_(std::move(location)) {}
  int64_t size() const override { return size_; }

  arrow::Result<size_t> read_at(int64_t offset, std::span<std::byte> buffer) const override {
    if (offset >= size_ || buffer.empty()) return size_t{0};
    const auto wanted = static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(buffer.size()), size_ - offset));
    if (wanted < kBlock) return read_blocks(offset, buffer.first(wanted));
    ARROW_RETURN_NOT_OK(for_each_in_parallel((wanted + kBlock - 1) / kBlock, [&](size_t block) {
      const size_t start = block * kBlock;
      return fill(offset + static_cast<int64_t>(start),
                  buffer.subspan(start, std::min<size_t>(kBlock, wanted - start)));
    }));
    return wanted;
  }

 private:
  struct Block {
    int64_t number = 0;
    std::vector<std::byte> bytes;
  };

  arrow::Status fill(int64_t offset, std::span<std::byte> buffer) const {
    const auto count = file_->ReadAt(offset, static_cast<int64_t>(buffer.size()), buffer.data());
    if (!count.ok()) return explain("reading", location_, count.status());
    if (*count == static_cast<int64_t>(buffer.size())) return arrow::Status::OK();
    return arrow::Status::IOError("reading ", location_, ": got ", *count, " bytes from byte ", offset, ", wanted ",
                                  buffer.size(), " (the connection was cut?)");
  }

  arrow::Result<size_t> read_blocks(int64_t offset, std::span<std::byte> buffer) const {
    const std::lock_guard lock(mutex_);
    size_t done = 0;
    while (done < buffer.size()) {
      const int64_t at = offset + static_cast<int64_t>(done);
      ARROW_ASSIGN_OR_RAISE(const Block* block, block_of(at / kBlock));
      const auto start = static_cast<size_t>(at % kBlock);
      const size_t count = std::min(buffer.size() - done, block->bytes.size() - start);
      std::memcpy(buffer.data() + done, block->bytes.data() + start, count);
      done += count;
    }
    return done;
  }

  arrow::Result<const Block*> block_of(int64_t number) const {
    const auto found =
        std::find_if(blocks_.begin(), blocks_.end(), [&](auto& block) { return block.number == number; });
    if (found != blocks_.end()) {
      blocks_.splice(blocks_.begin(), blocks_, found);
      return &blocks_.front();
    }
    Block block{.number = number};
    block.bytes.resize(static_cast<size_t>(std::min(kBlock, size_ - number * kBlock)));
    ARROW_RETURN_NOT_OK(fill(number * kBlock, block.bytes));
    blocks_.push_front(std::move(block));
    if (blocks_.size() > kBlocksKept) blocks_.pop_back();
    return &blocks_.front();
  }

  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  int64_t size_;
  Location location_;
  mutable std::mutex mutex_;         // guards blocks_
  mutable std::list<Block> blocks_;  // the last used first
};

class ArrowStorage final : public Storage {
 public:
  ArrowStorage(std::shared_ptr<afs::FileSystem> system, std::string base, Location uri)
      : system_(std::move(system)),
        base_(std::move(base)),
        uri_(std::move(uri)),
        has_folders_(scheme_of(uri_.text())->is_custom) {}

  Location location(const std::string& name) const override { return name.empty() ? uri_ : join(uri_, name); }

  arrow::Status write(const std::string& name, std::string_view content) override {
    ARROW_RETURN_NOT_OK(check_name(name));
    return put(name, [&](arrow::io::OutputStream& stream) -> arrow::Status {
      return content.empty() ? arrow::Status::OK() : stream.Write(content.data(), static_cast<int64_t>(content.size()));
    });
  }

  arrow::Result<FileSum> upload(const std::string& local_file, const std::string& name) override {
    ARROW_RETURN_NOT_OK(check_name(name));
    ARROW_ASSIGN_OR_RAISE(const Descriptor file, open_for_reading(local_file));
    struct stat about{};
    if (::fstat(file.get(), &about) != 0) return errno_status("reading " + local_file);
    Checksum checksum;
    int64_t size = 0;
    ARROW_RETURN_NOT_OK(put(name, [&](arrow::io::OutputStream& stream) -> arrow::Status {
      for (int64_t parts = 1;; ++parts) {
        const int64_t room = std::min(kPart, about.st_size - size + 1);
        ARROW_ASSIGN_OR_RAISE(std::unique_ptr<arrow::Buffer> part, arrow::AllocateBuffer(room));
        const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(part->mutable_data()), static_cast<size_t>(room));
        ARROW_ASSIGN_OR_RAISE(const size_t count, read_at(file, local_file, size, bytes));
        checksum.update(bytes.first(count));
        size += static_cast<int64_t>(count);
        std::shared_ptr<arrow::Buffer> whole = std::move(part);
        if (count > 0) ARROW_RETURN_NOT_OK(stream.Write(arrow::SliceBuffer(whole, 0, static_cast<int64_t>(count))));
        if (count < bytes.size() || size >= about.st_size) return arrow::Status::OK();
        if (parts % kPartsUnderWay == 0) ARROW_RETURN_NOT_OK(stream.Flush());  // waits for the parts under way
      }
    }));
    return FileSum{.size = size, .checksum = checksum.hex()};
  }

  arrow::Status copy(const std::string& from, const std::string& to) override {
    ARROW_RETURN_NOT_OK(check_name(from));
    ARROW_RETURN_NOT_OK(check_name(to));
    ARROW_ASSIGN_OR_RAISE(const auto file, open(from));
    if (file->size() > kMostCopied) return copy_through_here(*file, to);
    if (has_folders_) (void)system_->CreateDir(path_of(to.substr(0, to.rfind('/'))));  // the copy's error says more
    return explain("copying", location(from), system_->CopyFile(path_of(from), path_of(to)));
  }

  arrow::Result<std::unique_ptr<FileReader>> open(const std::string& name) const override {
    ARROW_RETURN_NOT_OK(check_name(name));
    const Location shown = location(name);
    const auto file = system_->OpenInputFile(path_of(name));
    if (says_missing(file.status())) return arrow::Status::KeyError("there is no file ", shown);
    if (!file.ok()) return explain("opening", shown, file.status());
    const auto size = (*file)->GetSize();
    if (says_missing(size.status())) return arrow::Status::KeyError("there is no file ", shown);
    if (!size.ok()) return explain("opening", shown, size.status());
    return std::make_unique<BlockReader>(*file, *size, shown);
  }

  arrow::Result<std::vector<FileSize>> list(const std::string& folder) const override {
    if (!folder.empty()) ARROW_RETURN_NOT_OK(check_name(folder));
    afs::FileSelector below;
    below.base_dir = path_of(folder);
    below.recursive = true;
    below.allow_not_found = true;
    const auto found = system_->GetFileInfo(below);
    if (!found.ok()) return explain("listing", location(folder), found.status());
    std::vector<FileSize> files;
    for (const afs::FileInfo& file : *found) {
      // A name that ends with '/' marks a folder for some tools.
      if (!file.IsFile() || file.path().ends_with('/')) continue;
      ARROW_ASSIGN_OR_RAISE(std::string name, name_of(file.path()));
      files.push_back({std::move(name), file.size()});
    }
    std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return files;
  }

  arrow::Status remove(const std::string& name) override {
    ARROW_RETURN_NOT_OK(check_name(name));
    const arrow::Status status = system_->DeleteFile(path_of(name));
    if (says_missing(status)) return arrow::Status::OK();
    return explain("deleting", location(name), status);
  }

  arrow::Status remove_below(const std::string& folder) override {
    ARROW_RETURN_NOT_OK(check_name(folder));
    const arrow::Status status = system_->DeleteDir(path_of(folder));
    if (status.ok() || says_missing(status)) return arrow::Status::OK();
    // Stores differ in what they say of a folder that is not there, and in whether they can delete one at all.
    ARROW_ASSIGN_OR_RAISE(const auto left, list(folder));
    return for_each_in_parallel(left.size(), [&](size_t index) { return remove(left[index].name); });
  }

 private:
  std::string path_of(const std::string& name) const {
    if (base_.empty() || name.empty()) return base_ + name;
    return base_ + "/" + name;
  }

  // Of a path that the file system lists: some begin theirs with a slash, whatever they were asked for.
  arrow::Result<std::string> name_of(std::string_view path) const {
    const auto without_slash = [](std::string_view text) {
      return text.substr(std::min(text.find_first_not_of('/'), text.size()));
    };
    const std::string_view base = without_slash(base_), listed = without_slash(path);
    if (base.empty()) return std::string(listed);
    if (listed.starts_with(base) && listed.substr(base.size()).starts_with('/')) {
      return std::string(listed.substr(base.size() + 1));
    }
    return arrow::Status::IOError("listing ", uri_, ": the file system has answered with ", path,
                                  ", which is not below ", base_, "; give it a path as it lists them");
  }

  // Stores with folders differ in what they say where there is none.
  arrow::Result<std::shared_ptr<arrow::io::OutputStream>> open_for_writing(const std::string& path) {
    auto stream = system_->OpenOutputStream(path);
    if (stream.ok() || !has_folders_ || path.find('/') == std::string::npos) return stream;
    if (!system_->CreateDir(path.substr(0, path.rfind('/'))).ok()) return stream;  // the first error says more
    return system_->OpenOutputStream(path);
  }

  arrow::Status copy_through_here(const FileReader& file, const std::string& to) {
    return put(to, [&](arrow::io::OutputStream& stream) -> arrow::Status {
      int64_t done = 0;
      for (int64_t parts = 1; done < file.size(); ++parts) {
        ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> part,
                              arrow::AllocateBuffer(std::min(kPart, file.size() - done)));
        const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(part->mutable_data()),
                                         static_cast<size_t>(part->size()));
        ARROW_ASSIGN_OR_RAISE(const size_t count, file.read_at(done, bytes));
        if (count == 0) return arrow::Status::IOError("it ended after ", done, " of ", file.size(), " bytes");
        ARROW_RETURN_NOT_OK(stream.Write(arrow::SliceBuffer(part, 0, static_cast<int64_t>(count))));
        done += static_cast<int64_t>(count);
        if (parts % kPartsUnderWay == 0) ARROW_RETURN_NOT_OK(stream.Flush());
      }
      return arrow::Status::OK();
    });
  }

  template <class Fill>
  arrow::Status put(const std::string& name, const Fill& fill) {
    const auto written = [&]() -> arrow::Status {
      ARROW_ASSIGN_OR_RAISE(const auto stream, open_for_writing(path_of(name)));
      arrow::Status filled = fill(*stream);
      if (filled.ok()) return stream->Close();
      (void)stream->Abort();  // the first error says more
      return filled;
    }();
    return explain("writing", location(name), written);
  }

  std::shared_ptr<afs::FileSystem> system_;
  std::string base_;
  Location uri_;
  bool has_folders_;
};

}  // namespace

arrow::Result<std::shared_ptr<Storage>> open_object_storage(const Location& uri) {
  const Scheme* const scheme = scheme_of(uri.text());
  if (uri.lacks_credentials() && scheme != nullptr && scheme->is_custom) {
    return arrow::Status::Invalid(
        uri, " is in a file system that a program had with it (storage_filesystem), which cannot be opened by a text; ",
        "only a program that gives it again can: Result.from_path(path, storage_filesystem=…) or ",
        "Checkpoint(path, filesystem=…)");
  }
  if (uri.lacks_credentials()) {
    return arrow::Status::Invalid("the keys that were in ", uri,
                                  " are not kept; give the URI with them, or without and the keys in the environment");
  }
  if (scheme == nullptr) return arrow::Status::Invalid(uri, " is no location of an object store");
  if (!scheme->is_built_in) {
    return arrow::Status::Invalid("opening ", uri, ": the Arrow of this build has no ", scheme->service,
                                  "; build Paceline with an Arrow that has it");
  }
  std::string base;
  auto system = scheme->open(uri.with_credentials(), &base);
  if (!system.ok()) return explain("opening", uri, system.status());
  while (base.ends_with('/')) base.pop_back();
  return std::make_shared<ArrowStorage>(*std::move(system), std::move(base), uri);
}

}  // namespace paceline::storage
