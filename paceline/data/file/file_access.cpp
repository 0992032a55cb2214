#include <arrow/buffer.h>
#include <arrow/buffer_builder.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/io/compressed.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/compression.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <optional>
#include <utility>

#include "paceline/data/file/file_access_internal.h"
#include "paceline/data/order/permutation.h"

namespace paceline::data {
namespace {

using arrow::Compression;

std::optional<Compression::type> compression_of(const std::string& path) {
  static constexpr std::array<std::pair<std::string_view, Compression::type>, 4> kEndings = {
      {{".gz", Compression::GZIP},
       {".zst", Compression::ZSTD},
       {".bz2", Compression::BZ2},
       {".lz4", Compression::LZ4_FRAME}}};
  std::string name = path.substr(path.rfind('/') + 1);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& [ending, type] : kEndings) {
    if (name.ends_with(ending)) return type;
  }
  return std::nullopt;
}

}  // namespace

arrow::Status in_file(std::string_view kind, const std::string& path, const arrow::Status& status) {
  if (status.ok()) return status;
  return status.WithMessage("cannot read the ", kind, " file ", path, ": ", status.message());
}

arrow::Status check_files(std::string_view kind, const std::vector<arrow::fs::FileInfo>& files) {
  if (files.empty()) return arrow::Status::Invalid("no ", kind, " file was given");
  for (const arrow::fs::FileInfo& file : files) {
    if (file.IsFile() && file.size() >= 0) continue;
    if (file.IsFile()) return in_file(kind, file.path(), arrow::Status::IOError("its file system gives no size"));
    const bool is_missing = file.type() == arrow::fs::FileType::NotFound;
    return in_file(kind, file.path(), arrow::Status::IOError(is_missing ? "it does not exist" : "it is no file"));
  }
  return arrow::Status::OK();
}

uint64_t mix_file(uint64_t fingerprint, const arrow::fs::FileInfo& file) {
  fingerprint = mix(mix_text(fingerprint, file.path()), static_cast<uint64_t>(file.size()));
  return mix(fingerprint, static_cast<uint64_t>(file.mtime().time_since_epoch().count()));
}

arrow::Status check_unchanged(arrow::fs::FileSystem& file_system, const arrow::fs::FileInfo& file) {
  ARROW_ASSIGN_OR_RAISE(const arrow::fs::FileInfo now, file_system.GetFileInfo(file.path()));
  const bool are_known = now.mtime() != arrow::fs::kNoTime && file.mtime() != arrow::fs::kNoTime;
  // Object stores give seconds in one answer, and less in another.
  const bool is_same_time = !are_known || std::chrono::abs(now.mtime() - file.mtime()) < std::chrono::seconds(1);
  if (now.IsFile() && now.size() == file.size() && is_same_time) return arrow::Status::OK();
  if (!now.IsFile()) return arrow::Status::IOError("it has changed since the dataset was made: it is gone");
  return arrow::Status::IOError("it has changed since the dataset was made: it had ", file.size(), " bytes and has ",
                                now.size(), is_same_time ? "" : ", and has been written again");
}

arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> open_unchanged(arrow::fs::FileSystem& file_system,
                                                                           const arrow::fs::FileInfo& file) {
  ARROW_ASSIGN_OR_RAISE(auto input, file_system.OpenInputFile(file));
  ARROW_RETURN_NOT_OK(check_unchanged(file_system, file));
  return input;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> read_exactly(arrow::io::RandomAccessFile& file, int64_t offset,
                                                           int64_t bytes) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, file.ReadAt(offset, bytes));
  if (buffer->size() == bytes) return buffer;
  return arrow::Status::IOError("it ends after ", offset + buffer->size(), " bytes; ", offset + bytes,
                                " are wanted (is it truncated?)");
}

std::string_view view_of(const arrow::Buffer& buffer) {
  return {buffer.data_as<char>(), static_cast<size_t>(buffer.size())};
}

bool is_compressed(const std::string& path) {
  return compression_of(path).has_value();
}

arrow::Result<std::shared_ptr<arrow::Buffer>> read_decompressed(arrow::fs::FileSystem& file_system,
                                                                const arrow::fs::FileInfo& file, int64_t limit) {
  ARROW_ASSIGN_OR_RAISE(auto input, open_unchanged(file_system, file));
  const auto compression = compression_of(file.path());
  if (!compression) return read_exactly(*input, 0, std::min(limit, file.size()));
  if (file.size() == 0) return arrow::Status::IOError("it is empty; a compressed file is not (is it truncated?)");
  ARROW_ASSIGN_OR_RAISE(const auto codec, arrow::util::Codec::Create(*compression));
  ARROW_ASSIGN_OR_RAISE(auto stream, arrow::io::CompressedInputStream::Make(codec.get(), std::move(input)));
  constexpr int64_t kPiece = int64_t{1} << 20;
  arrow::BufferBuilder all;
  while (all.length() < limit) {
    const int64_t wanted = std::min(kPiece, limit - all.length());
    ARROW_RETURN_NOT_OK(all.Reserve(wanted));
    ARROW_ASSIGN_OR_RAISE(const int64_t count, stream->Read(wanted, all.mutable_data() + all.length()));
    if (count == 0) break;
    all.UnsafeAdvance(count);
  }
  return all.Finish();
}

}  // namespace paceline::data
