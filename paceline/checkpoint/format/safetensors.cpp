#include "paceline/checkpoint/format/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "paceline/core/json.h"

namespace paceline::checkpoint {
namespace {

constexpr const char* kMetadata = "__metadata__";
constexpr size_t kLengthBytes = sizeof(uint64_t);
static_assert(std::endian::native == std::endian::little, "safetensors is little endian");

// Larger elements first, then by name: what the safetensors library does too.
arrow::Status sort_for_file(std::vector<SafetensorsEntry>& tensors) {
  for (const auto& tensor : tensors) ARROW_RETURN_NOT_OK(element_size(tensor.dtype));
  const auto key = [](const SafetensorsEntry& tensor) {
    return std::make_tuple(-*element_size(tensor.dtype), std::cref(tensor.name));
  };
  std::sort(tensors.begin(), tensors.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return arrow::Status::OK();
}

arrow::Result<SafetensorsEntry> decode_entry(const std::string& name, const Json& json, int64_t data_start) {
  SafetensorsEntry entry{.name = name};
  int64_t begin = 0;
  int64_t end = 0;
  try {
    json.at("dtype").get_to(entry.dtype);
    json.at("shape").get_to(entry.shape);
    json.at("data_offsets").at(0).get_to(begin);
    json.at("data_offsets").at(1).get_to(end);
  } catch (const Json::exception& error) {
    return arrow::Status::Invalid("tensor \"", name, "\" in the head of a safetensors file: ", error.what());
  }
  ARROW_ASSIGN_OR_RAISE(entry.size, byte_count(entry.dtype, entry.shape));
  if (begin < 0 || end < begin || end - begin != entry.size) {
    return arrow::Status::Invalid("tensor \"", name, "\" of a safetensors file stands at bytes ", begin, " to ", end,
                                  "; wanted ", entry.size, " bytes for ", to_string(entry.shape), " of ", entry.dtype);
  }
  if (__builtin_add_overflow(begin, data_start, &entry.offset)) {
    return arrow::Status::Invalid("tensor \"", name, "\" of a safetensors file is out of any range");
  }
  return entry;
}

}  // namespace

arrow::Result<SafetensorsHead> encode_safetensors(std::vector<SafetensorsEntry> tensors,
                                                  const SafetensorsMetadata& metadata) {
  ARROW_RETURN_NOT_OK(sort_for_file(tensors));
  Json json = Json::object();
  if (!metadata.empty()) json[kMetadata] = metadata;
  int64_t end = 0;
  for (auto& tensor : tensors) {
    if (tensor.name == kMetadata) return arrow::Status::Invalid("no tensor can be named ", kMetadata);
    ARROW_ASSIGN_OR_RAISE(tensor.size, byte_count(tensor.dtype, tensor.shape));
    tensor.offset = end;
    if (__builtin_add_overflow(end, tensor.size, &end))
      return arrow::Status::Invalid("tensors are too large for a file");
    const Json entry = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.offset, end}}};
    if (!json.emplace(tensor.name, entry).second) {
      return arrow::Status::Invalid("two tensors of one file are named \"", tensor.name, "\"");
    }
  }
  std::string text = encode_json(json);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  SafetensorsHead head{.bytes = std::string(kLengthBytes, '\0') + text, .entries = std::move(tensors)};
  std::memcpy(head.bytes.data(), &length, kLengthBytes);
  for (auto& entry : head.entries) entry.offset += static_cast<int64_t>(head.bytes.size());
  return head;
}

arrow::Result<int64_t> safetensors_head_size(std::string_view first_8_bytes) {
  if (first_8_bytes.size() < kLengthBytes) return arrow::Status::Invalid("a safetensors file has at least 8 bytes");
  uint64_t length = 0;
  std::memcpy(&length, first_8_bytes.data(), kLengthBytes);
  if (length > static_cast<uint64_t>(kMaxSafetensorsHead)) {
    return arrow::Status::Invalid("not a safetensors file: its head would have ", length, " bytes; at most ",
                                  kMaxSafetensorsHead);
  }
  return static_cast<int64_t>(kLengthBytes + length);
}

arrow::Result<std::vector<SafetensorsEntry>> decode_safetensors(std::string_view head, int64_t file_size) {
  ARROW_ASSIGN_OR_RAISE(const int64_t head_size, safetensors_head_size(head));
  if (static_cast<int64_t>(head.size()) < head_size) {
    return arrow::Status::Invalid("a safetensors file is truncated in its head: got ", head.size(), " bytes, wanted ",
                                  head_size);
  }
  ARROW_ASSIGN_OR_RAISE(const Json json, decode_json(head.substr(kLengthBytes, head_size - kLengthBytes)));
  if (!json.is_object()) return arrow::Status::Invalid("the head of a safetensors file is not a JSON object");
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadata) continue;
    ARROW_ASSIGN_OR_RAISE(auto entry, decode_entry(name, value, head_size));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.offset, a.size, a.name) < std::tie(b.offset, b.size, b.name);
  });
  int64_t end = head_size;
  for (const auto& entry : entries) {
    if (entry.offset != end) {
      return arrow::Status::Invalid("tensor \"", entry.name, "\" of a safetensors file starts at byte ", entry.offset,
                                    "; wanted ", end, ", where the one before it ends");
    }
    end += entry.size;
  }
  if (end != file_size) {
    return arrow::Status::Invalid("a safetensors file has ", file_size, " bytes; its head wants ", end);
  }
  return entries;
}

}  // namespace paceline::checkpoint
