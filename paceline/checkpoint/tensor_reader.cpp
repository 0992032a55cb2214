#include "paceline/checkpoint/tensor_reader.h"

#include <cstring>
#include <map>
#include <mutex>

#include "paceline/checkpoint/store.h"
#include "paceline/checkpoint/tensor_files.h"
#include "paceline/storage/checksum.h"
#include "paceline/storage/storage.h"

namespace paceline::checkpoint {
namespace {

// Fills `target` with the slice's bytes; each portion is summed while it is in the cache.
arrow::Status read_slice(const storage::FileReader& file, const std::string& path, size_t portion_bytes,
                         const std::string& tensor, const Slice& slice, std::span<std::byte> target) {
  storage::Checksum checksum;
  for (size_t done = 0; done < target.size();) {
    const auto portion = target.subspan(done, std::min(portion_bytes, target.size() - done));
    ARROW_ASSIGN_OR_RAISE(const size_t count, file.read_at(slice.offset + static_cast<int64_t>(done), portion));
    checksum.update(portion.first(count));
    done += count;
    if (count == portion.size()) continue;
    return arrow::Status::IOError("tensor \"", tensor, "\": ", path, " is truncated: it ends at byte ",
                                  slice.offset + static_cast<int64_t>(done), "; wanted ", slice.size, " bytes from ",
                                  slice.offset);
  }
  const std::string got = checksum.hex();
  if (got == slice.checksum) return arrow::Status::OK();
  return arrow::Status::IOError("tensor \"", tensor, "\": ", path, " is damaged in the ", slice.size, " bytes from ",
                                slice.offset, ": their checksum is ", got, ", wanted ", slice.checksum);
}

// A slice as runs of bytes that are contiguous in the whole tensor: all dimensions from `run_dim` on are one run.
struct Runs {
  size_t run_dim = 0;
  int64_t run_bytes = 1;
  int64_t count = 1;
};

Runs runs_of(const Slice& slice, const Shape& whole, int64_t element) {
  Runs runs{.run_dim = whole.size(), .run_bytes = element};
  bool contiguous = true;
  for (size_t dim = whole.size(); dim-- > 0;) {
    if (contiguous) {
      runs.run_dim = dim;
      runs.run_bytes *= slice.shape[dim];
      contiguous = slice.shape[dim] == whole[dim];
    } else {
      runs.count *= slice.shape[dim];
    }
  }
  return runs;
}

// Byte of the whole tensor at which the slice's run number `run` starts.
int64_t target_offset(const Slice& slice, const Shape& whole, int64_t element, const Runs& runs, int64_t run) {
  int64_t offset = 0;
  int64_t stride = element;
  for (size_t dim = whole.size(); dim-- > 0;) {
    int64_t index = slice.start[dim];
    if (dim < runs.run_dim) {
      index += run % slice.shape[dim];
      run /= slice.shape[dim];
    }
    offset += index * stride;
    stride *= whole[dim];
  }
  return offset;
}

}  // namespace

struct TensorReader::Files {
  std::shared_ptr<storage::Storage> folder;
  size_t portion;  // an object store's reader takes large ones on several threads
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<storage::FileReader>> open;

  arrow::Status read(const std::string& tensor, const Slice& slice, std::span<std::byte> target) {
    const storage::FileReader* file = nullptr;
    const std::string path = folder->location(slice.file).text();
    {
      const std::lock_guard lock(mutex);
      auto& known = open[slice.file];
      if (!known) {
        auto opened = folder->open(slice.file);
        if (opened.status().IsKeyError()) {
          return arrow::Status::IOError("tensor \"", tensor, "\": checkpoint file ", path, " is missing");
        }
        ARROW_ASSIGN_OR_RAISE(known, std::move(opened));
      }
      file = known.get();
    }
    return read_slice(*file, path, portion, tensor, slice, target);
  }
};

TensorReader::TensorReader(storage::Location path, Manifest manifest, std::shared_ptr<Files> files)
    : path_(std::move(path)), manifest_(std::move(manifest)), files_(std::move(files)) {}

arrow::Result<TensorReader> TensorReader::open(const storage::Location& checkpoint_path) {
  ARROW_ASSIGN_OR_RAISE(Manifest manifest, read_manifest(checkpoint_path));
  ARROW_RETURN_NOT_OK(check_sizes(checkpoint_path, manifest));
  auto files = std::make_shared<Files>();
  ARROW_ASSIGN_OR_RAISE(files->folder, storage::open_storage(checkpoint_path));
  if (manifest.tensors.empty()) ARROW_RETURN_NOT_OK(add_tensors_of_files(manifest, *files->folder));
  files->portion = checkpoint_path.is_uri() ? size_t{64} << 20 : storage::kPortion;
  return TensorReader(checkpoint_path, std::move(manifest), std::move(files));
}

arrow::Status TensorReader::read(const std::string& name, std::span<std::byte> target) const {
  const auto found = manifest_.tensors.find(name);
  if (found == manifest_.tensors.end()) {
    return arrow::Status::KeyError("checkpoint ", path_, " has no tensor \"", name, "\" among its ",
                                   manifest_.tensors.size());
  }
  const TensorEntry& tensor = found->second;
  ARROW_ASSIGN_OR_RAISE(const int64_t wanted, byte_count(tensor.dtype, tensor.shape));
  if (static_cast<int64_t>(target.size()) != wanted) {
    return arrow::Status::Invalid("tensor \"", name, "\" of checkpoint ", path_, " is ", tensor.dtype, " ",
                                  to_string(tensor.shape), " with ", wanted, " bytes; the target has ", target.size());
  }
  ARROW_ASSIGN_OR_RAISE(const int64_t element, element_size(tensor.dtype));
  std::vector<std::byte> buffer;
  for (const Slice& slice : tensor.slices) {
    if (slice.size == 0) continue;
    const Runs runs = runs_of(slice, tensor.shape, element);
    if (runs.count == 1) {
      const auto start = static_cast<size_t>(target_offset(slice, tensor.shape, element, runs, 0));
      const auto place = target.subspan(start, static_cast<size_t>(slice.size));
      ARROW_RETURN_NOT_OK(files_->read(name, slice, place));
      continue;
    }
    buffer.resize(static_cast<size_t>(slice.size));
    ARROW_RETURN_NOT_OK(files_->read(name, slice, buffer));
    for (int64_t run = 0; run < runs.count; ++run) {
      std::memcpy(target.data() + target_offset(slice, tensor.shape, element, runs, run),
                  buffer.data() + run * runs.run_bytes, static_cast<size_t>(runs.run_bytes));
    }
  }
  return arrow::Status::OK();
}

arrow::Result<std::vector<std::byte>> TensorReader::read_whole(const std::string& name) const {
  const auto found = manifest_.tensors.find(name);
  std::vector<std::byte> bytes;
  if (found != manifest_.tensors.end()) {
    ARROW_ASSIGN_OR_RAISE(const int64_t size, byte_count(found->second.dtype, found->second.shape));
    bytes.resize(static_cast<size_t>(size));
  }
  ARROW_RETURN_NOT_OK(read(name, bytes));
  return bytes;
}

}  // namespace paceline::checkpoint
