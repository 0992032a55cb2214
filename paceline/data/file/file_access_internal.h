// What all sources of files do with them: check, open, read, decompress, and name them in errors.
#pragma once

#include <arrow/filesystem/type_fwd.h>
#include <arrow/io/type_fwd.h>
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::data {

/// `status` with "cannot read the KIND file PATH: " in front; OK stays OK.
arrow::Status in_file(std::string_view kind, const std::string& path, const arrow::Status& status);
/// Invalid where there is none; IOError where one is missing or a folder.
arrow::Status check_files(std::string_view kind, const std::vector<arrow::fs::FileInfo>& files);
/// A fingerprint with a file's path, size and time.
uint64_t mix_file(uint64_t fingerprint, const arrow::fs::FileInfo& file);

/// IOError where the file is not as it was when it was listed: gone, of another size, or written again. A request, to
/// an object store, which would else give parts of the old file and the new one.
arrow::Status check_unchanged(arrow::fs::FileSystem& file_system, const arrow::fs::FileInfo& file);
/// Opens a file, and does that.
arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> open_unchanged(arrow::fs::FileSystem& file_system,
                                                                           const arrow::fs::FileInfo& file);
/// `bytes` from `offset` on; IOError where the file ends before.
arrow::Result<std::shared_ptr<arrow::Buffer>> read_exactly(arrow::io::RandomAccessFile& file, int64_t offset,
                                                           int64_t bytes);

/// The bytes of a buffer.
std::string_view view_of(const arrow::Buffer& buffer);

/// Whether a file is compressed as a whole, which its name says: .gz, .zst, .bz2 or .lz4, in any case.
bool is_compressed(const std::string& path);
/// The first `limit` bytes of a file, or all of fewer; decompressed if it is compressed.
arrow::Result<std::shared_ptr<arrow::Buffer>> read_decompressed(arrow::fs::FileSystem& file_system,
                                                                const arrow::fs::FileInfo& file, int64_t limit);

}  // namespace paceline::data
