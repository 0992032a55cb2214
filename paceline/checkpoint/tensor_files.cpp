#include "paceline/checkpoint/tensor_files.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>

#include "paceline/checkpoint/format/safetensors.h"
#include "paceline/storage/checksum.h"

namespace paceline::checkpoint {
namespace {

constexpr std::string_view kEnding = ".safetensors";

// Whether digits were there to be cut off.
bool cut_digits(std::string_view& text) {
  const size_t size = text.size();
  text = text.substr(0, text.find_last_not_of("0123456789") + 1);
  return text.size() < size;
}

// "model-00001-of-00003" → "model".
std::string_view without_shard_number(std::string_view name) {
  constexpr std::string_view kOf = "-of-";
  std::string_view left = name;
  if (!cut_digits(left) || !left.ends_with(kOf)) return name;
  left.remove_suffix(kOf.size());
  return cut_digits(left) && left.ends_with('-') ? left.substr(0, left.size() - 1) : name;
}

// What stands before the tensors' own names.
std::string prefix_of(std::string_view file) {
  if (file == "dict_checkpoint.safetensors") return "";
  return std::string(without_shard_number(file.substr(0, file.size() - kEnding.size()))) + "/";
}

// A file's bytes from the first to the last, all of them summed.
class SummedFile {
 public:
  explicit SummedFile(const storage::FileReader& file) : file_(file) {}

  // The next `count` bytes, by portions.
  arrow::Status read(int64_t count, const std::function<void(std::span<const std::byte>)>& visit) {
    while (count > 0) {
      const auto portion = std::span(buffer_).first(std::min(buffer_.size(), static_cast<size_t>(count)));
      ARROW_ASSIGN_OR_RAISE(const size_t got, file_.read_at(offset_, portion));
      if (got != portion.size()) return arrow::Status::IOError("it ends at byte ", offset_ + static_cast<int64_t>(got));
      checksum_.update(portion);
      visit(portion);
      offset_ += static_cast<int64_t>(got);
      count -= static_cast<int64_t>(got);
    }
    return arrow::Status::OK();
  }

  std::string checksum() const { return checksum_.hex(); }

 private:
  const storage::FileReader& file_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(storage::kPortion);
  storage::Checksum checksum_;
  int64_t offset_ = 0;
};

arrow::Result<std::string> read_text(SummedFile& file, int64_t count) {
  std::string text;
  ARROW_RETURN_NOT_OK(file.read(count, [&text](std::span<const std::byte> bytes) {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }));
  return text;
}

arrow::Result<TensorEntries> tensors_of(const std::string& name, const FileEntry& entry,
                                        const storage::FileReader& reader) {
  SummedFile file(reader);
  ARROW_ASSIGN_OR_RAISE(std::string head, read_text(file, sizeof(uint64_t)));
  ARROW_ASSIGN_OR_RAISE(const int64_t head_size, safetensors_head_size(head));
  ARROW_ASSIGN_OR_RAISE(const std::string json, read_text(file, head_size - std::ssize(head)));
  ARROW_ASSIGN_OR_RAISE(const auto tensors, decode_safetensors(head + json, reader.size()));
  TensorEntries entries;
  for (const SafetensorsEntry& tensor : tensors) {
    storage::Checksum checksum;
    ARROW_RETURN_NOT_OK(file.read(tensor.size, [&](std::span<const std::byte> bytes) { checksum.update(bytes); }));
    entries[prefix_of(name) + tensor.name] = {.dtype = tensor.dtype,
                                              .shape = tensor.shape,
                                              .slices = {{.file = name,
                                                          .offset = tensor.offset,
                                                          .size = tensor.size,
                                                          .start = Shape(tensor.shape.size(), 0),
                                                          .shape = tensor.shape,
                                                          .checksum = checksum.hex()}}};
  }
  if (file.checksum() != entry.checksum) {
    return arrow::Status::IOError("it is damaged: its checksum is ", file.checksum(), ", wanted ", entry.checksum);
  }
  return entries;
}

}  // namespace

arrow::Status add_tensors_of_files(Manifest& manifest, const storage::Storage& folder) {
  for (const auto& [name, entry] : manifest.files) {
    if (!name.ends_with(kEnding)) continue;
    ARROW_ASSIGN_OR_RAISE(const auto reader, folder.open(name));
    auto tensors = tensors_of(name, entry, *reader);
    if (!tensors.ok()) {
      return arrow::Status::IOError("the tensors of checkpoint file ", folder.location(name),
                                    " cannot be read: ", tensors.status().message());
    }
    manifest.tensors.merge(*tensors);
  }
  return arrow::Status::OK();
}

}  // namespace paceline::checkpoint
