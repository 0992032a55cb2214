#include "paceline/checkpoint/export.h"

#include <boost/crc.hpp>
#include <cstdio>
#include <filesystem>
#include <set>
#include <span>

#include "paceline/checkpoint/format/safetensors.h"
#include "paceline/checkpoint/format/torch_file.h"
#include "paceline/checkpoint/tensor_reader.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/local/file_writer.h"

namespace paceline::checkpoint {
namespace {

using Selection = std::map<std::string, std::string>;  // name in the export -> name in the checkpoint

// A file that appears under its name when it is whole.
class WholeFile {
 public:
  static arrow::Result<WholeFile> create(const std::string& path) {
    const std::string temporary = path + ".paceline-tmp";
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);  // of an export that was interrupted
    ARROW_ASSIGN_OR_RAISE(auto writer, storage::FileWriter::create(temporary));
    return WholeFile(path, temporary, std::move(writer));
  }
  WholeFile(WholeFile&& other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::exchange(other.temporary_, "")),
        writer_(std::move(other.writer_)) {}
  WholeFile& operator=(WholeFile&&) = delete;
  ~WholeFile() {
    std::error_code ignored;
    if (!temporary_.empty()) std::filesystem::remove(temporary_, ignored);
  }

  // The bytes may change when this has returned.
  arrow::Status write(std::span<const std::byte> bytes) {
    ARROW_RETURN_NOT_OK(writer_.append(bytes));
    return writer_.flush();
  }
  arrow::Status write(const std::string& text) { return write(std::as_bytes(std::span(text))); }
  arrow::Status finish() {
    ARROW_RETURN_NOT_OK(writer_.finish());
    ARROW_RETURN_NOT_OK(storage::sync(temporary_));
    ARROW_RETURN_NOT_OK(storage::move(temporary_, path_));
    temporary_.clear();
    return arrow::Status::OK();
  }

 private:
  WholeFile(std::string path, std::string temporary, storage::FileWriter writer)
      : path_(std::move(path)), temporary_(std::move(temporary)), writer_(std::move(writer)) {}

  std::string path_;
  std::string temporary_;
  storage::FileWriter writer_;
};

arrow::Result<int64_t> size_of(const TensorReader& reader, const std::string& name) {
  const TensorEntry& tensor = reader.manifest().tensors.at(name);
  return byte_count(tensor.dtype, tensor.shape);
}

// In the order of their names, each as full as it may be.
arrow::Result<std::vector<Selection>> split(const TensorReader& reader, const Selection& selection, int64_t most) {
  std::vector<Selection> shards(1);
  int64_t filled = 0;
  for (const auto& [name, source] : selection) {
    ARROW_ASSIGN_OR_RAISE(const int64_t size, size_of(reader, source));
    if (!shards.back().empty() && filled + size > most) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().emplace(name, source);
    filled += size;
  }
  return shards;
}

arrow::Status write_safetensors(const TensorReader& reader, const Selection& selection, const std::string& path) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, source] : selection) {
    const TensorEntry& tensor = reader.manifest().tensors.at(source);
    entries.push_back({.name = name, .dtype = tensor.dtype, .shape = tensor.shape});
  }
  // Without this member Hugging Face's libraries refuse the file.
  ARROW_ASSIGN_OR_RAISE(const SafetensorsHead head, encode_safetensors(std::move(entries), {{"format", "pt"}}));
  ARROW_ASSIGN_OR_RAISE(WholeFile file, WholeFile::create(path));
  ARROW_RETURN_NOT_OK(file.write(head.bytes));
  for (const SafetensorsEntry& entry : head.entries) {
    ARROW_ASSIGN_OR_RAISE(const auto bytes, reader.read_whole(selection.at(entry.name)));
    ARROW_RETURN_NOT_OK(file.write(bytes));
  }
  return file.finish();
}

std::string shard_name(size_t number, size_t count) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", number, count);
  return count == 1 ? "model.safetensors" : name;
}

uint32_t crc_of(std::span<const std::byte> bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

}  // namespace

arrow::Result<std::map<std::string, std::string>> tensors_of_item(const Manifest& manifest, const std::string& item) {
  Selection selection;
  std::set<std::string> items;
  for (const auto& [name, tensor] : manifest.tensors) {
    const size_t slash = name.find('/');
    if (slash != std::string::npos) items.insert(name.substr(0, slash));
    if (item.empty()) {
      selection.emplace(name, name);
    } else if (slash == item.size() && name.starts_with(item)) {
      selection.emplace(name.substr(slash + 1), name);
    }
  }
  if (!selection.empty()) return selection;
  std::string list;
  for (const std::string& one : items) list += (list.empty() ? "" : ", ") + one;
  return arrow::Status::KeyError("the checkpoint has no tensors", item.empty() ? "" : " of \"" + item + "\"",
                                 "; items with tensors: ", list.empty() ? "none" : list);
}

arrow::Result<Exported> export_safetensors(const storage::Location& checkpoint, const std::string& item,
                                           const std::string& folder, int64_t most_shard_bytes) {
  ARROW_ASSIGN_OR_RAISE(const TensorReader reader, TensorReader::open(checkpoint));
  ARROW_ASSIGN_OR_RAISE(const Selection selection, tensors_of_item(reader.manifest(), item));
  ARROW_ASSIGN_OR_RAISE(const auto shards, split(reader, selection, most_shard_bytes));
  ARROW_RETURN_NOT_OK(storage::make_folders(folder));
  Exported exported{.files = {}, .tensors = std::ssize(selection)};
  Json weight_map = Json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i + 1, shards.size());
    ARROW_RETURN_NOT_OK(write_safetensors(reader, shards[i], folder + "/" + name));
    exported.files.push_back(folder + "/" + name);
    for (const auto& [tensor, source] : shards[i]) {
      ARROW_ASSIGN_OR_RAISE(const int64_t size, size_of(reader, source));
      exported.bytes += size;
      weight_map[tensor] = name;
    }
  }
  if (shards.size() == 1) return exported;
  const std::string index = folder + "/model.safetensors.index.json";
  const Json json = {{"metadata", {{"total_size", exported.bytes}}}, {"weight_map", std::move(weight_map)}};
  ARROW_RETURN_NOT_OK(storage::write_atomically(index, encode_json(json) + "\n"));
  exported.files.push_back(index);
  return exported;
}

arrow::Result<Exported> export_torch(const storage::Location& checkpoint, const std::string& item,
                                     const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const TensorReader reader, TensorReader::open(checkpoint));
  ARROW_ASSIGN_OR_RAISE(const Selection selection, tensors_of_item(reader.manifest(), item));
  std::vector<TorchTensor> tensors;
  for (const auto& [name, source] : selection) {
    const TensorEntry& tensor = reader.manifest().tensors.at(source);
    tensors.push_back({name, tensor.dtype, tensor.shape});
  }
  ARROW_ASSIGN_OR_RAISE(const std::string pickle, encode_torch_pickle(tensors));
  ARROW_ASSIGN_OR_RAISE(WholeFile file, WholeFile::create(path));
  ZipLayout zip;
  Exported exported{.files = {path}, .tensors = std::ssize(tensors)};
  const auto add = [&](const std::string& name, std::span<const std::byte> bytes) -> arrow::Status {
    ARROW_RETURN_NOT_OK(file.write(zip.header("archive/" + name, std::ssize(bytes), crc_of(bytes))));
    return file.write(bytes);
  };
  const auto add_text = [&](const std::string& name, const std::string& text) {
    return add(name, std::as_bytes(std::span(text)));
  };
  ARROW_RETURN_NOT_OK(add_text("data.pkl", pickle));
  ARROW_RETURN_NOT_OK(add_text("byteorder", "little"));
  for (size_t i = 0; i < tensors.size(); ++i) {
    ARROW_ASSIGN_OR_RAISE(const auto bytes, reader.read_whole(selection.at(tensors[i].name)));
    ARROW_RETURN_NOT_OK(add("data/" + std::to_string(i), bytes));
    exported.bytes += std::ssize(bytes);
  }
  ARROW_RETURN_NOT_OK(add_text("version", "3\n"));
  ARROW_RETURN_NOT_OK(file.write(zip.finish()));
  ARROW_RETURN_NOT_OK(file.finish());
  return exported;
}

}  // namespace paceline::checkpoint
