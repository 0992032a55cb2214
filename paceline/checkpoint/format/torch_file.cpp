#include "paceline/checkpoint/format/torch_file.h"

#include <cstdint>
#include <limits>
#include <map>

namespace paceline::checkpoint {
namespace {

constexpr int64_t kMost32 = 0xffffffff;
constexpr int64_t kAlignment = 64;

// --- pickle, protocol 2: the opcodes' names are those of Python's pickletools ---------------------------------------

template <class T>
void put(std::string& bytes, T value) {
  for (size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
}

void put_text(std::string& pickle, const std::string& text) {
  pickle += 'X';  // BINUNICODE
  put(pickle, static_cast<uint32_t>(text.size()));
  pickle += text;
}

void put_integer(std::string& pickle, int64_t value) {
  if (value >= 0 && value <= std::numeric_limits<int32_t>::max()) {
    pickle += 'J';  // BININT
    put(pickle, static_cast<int32_t>(value));
    return;
  }
  pickle += "\x8a\x08";  // LONG1, 8 bytes
  put(pickle, value);
}

void put_global(std::string& pickle, const std::string& module, const std::string& name) {
  pickle += 'c' + module + "\n" + name + "\n";  // GLOBAL
}

void put_integers(std::string& pickle, const Shape& values) {
  pickle += '(';  // MARK
  for (const int64_t value : values) put_integer(pickle, value);
  pickle += 't';  // TUPLE
}

void put_ordered_dict(std::string& pickle) {
  put_global(pickle, "collections", "OrderedDict");
  pickle += ")R";  // EMPTY_TUPLE, REDUCE
}

// The class that torch names a storage by, which says its dtype.
arrow::Result<std::string> storage_class(const std::string& dtype) {
  static const std::map<std::string, std::string> kClasses = {
      {"F64", "DoubleStorage"}, {"F32", "FloatStorage"}, {"F16", "HalfStorage"},        {"BF16", "BFloat16Storage"},
      {"I64", "LongStorage"},   {"I32", "IntStorage"},   {"I16", "ShortStorage"},       {"I8", "CharStorage"},
      {"U8", "ByteStorage"},    {"BOOL", "BoolStorage"}, {"C64", "ComplexFloatStorage"}};
  const auto found = kClasses.find(dtype);
  if (found != kClasses.end()) return found->second;
  return arrow::Status::Invalid("dtype ", dtype,
                                " has no place in a .pt file that torch.load(weights_only=True) reads; export "
                                "safetensors instead");
}

// torch._utils._rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks)
arrow::Status put_tensor(std::string& pickle, const TorchTensor& tensor, size_t number) {
  ARROW_ASSIGN_OR_RAISE(const std::string storage, storage_class(tensor.dtype));
  ARROW_ASSIGN_OR_RAISE(const int64_t count, element_count(tensor.shape));
  Shape strides(tensor.shape.size());
  int64_t stride = 1;
  for (size_t i = strides.size(); i-- > 0; stride *= std::max<int64_t>(1, tensor.shape[i])) strides[i] = stride;
  put_global(pickle, "torch._utils", "_rebuild_tensor_v2");
  pickle += "((";  // the arguments, and in them the storage's persistent id
  put_text(pickle, "storage");
  put_global(pickle, "torch", storage);
  put_text(pickle, std::to_string(number));
  put_text(pickle, "cpu");
  put_integer(pickle, count);
  pickle += "tQ";  // TUPLE, BINPERSID
  put_integer(pickle, 0);
  put_integers(pickle, tensor.shape);
  put_integers(pickle, strides);
  pickle += '\x89';  // NEWFALSE
  put_ordered_dict(pickle);
  pickle += "tR";
  return arrow::Status::OK();
}

}  // namespace

arrow::Result<std::string> encode_torch_pickle(const std::vector<TorchTensor>& tensors) {
  std::string pickle = "\x80\x02";  // PROTO 2
  put_ordered_dict(pickle);
  pickle += '(';
  for (size_t i = 0; i < tensors.size(); ++i) {
    put_text(pickle, tensors[i].name);
    ARROW_RETURN_NOT_OK(put_tensor(pickle, tensors[i], i));
  }
  return pickle + "u.";  // SETITEMS, STOP
}

std::string ZipLayout::header(const std::string& name, int64_t size, uint32_t crc) {
  const bool large = size >= kMost32;
  const int64_t fixed = 30 + static_cast<int64_t>(name.size()) + (large ? 20 : 0);
  // The padding is an extra field of its own, with its four bytes of head.
  int64_t padding = (kAlignment - (position_ + fixed) % kAlignment) % kAlignment;
  if (padding > 0 && padding < 4) padding += kAlignment;
  std::string bytes = "PK\x03\x04";
  put(bytes, static_cast<uint16_t>(large ? 45 : 20));  // version needed
  put(bytes, uint16_t{0x0800});                        // names are UTF-8
  put(bytes, uint16_t{0});                             // stored
  put(bytes, uint32_t{0x00210000});                    // 1980-01-01: the same tensors give the same file
  put(bytes, crc);
  put(bytes, static_cast<uint32_t>(large ? kMost32 : size));
  put(bytes, static_cast<uint32_t>(large ? kMost32 : size));
  put(bytes, static_cast<uint16_t>(name.size()));
  put(bytes, static_cast<uint16_t>((large ? 20 : 0) + padding));
  bytes += name;
  if (large) {
    put(bytes, uint16_t{1});
    put(bytes, uint16_t{16});
    put(bytes, size);
    put(bytes, size);
  }
  if (padding > 0) {
    bytes += "FB";  // as PyTorch's writer pads
    put(bytes, static_cast<uint16_t>(padding - 4));
    bytes.append(static_cast<size_t>(padding - 4), 'Z');
  }
  entries_.push_back({name, size, crc, position_});
  position_ += static_cast<int64_t>(bytes.size()) + size;
  return bytes;
}

std::string ZipLayout::finish() const {
  std::string bytes;
  for (const Entry& entry : entries_) {
    const bool large = entry.size >= kMost32 || entry.offset >= kMost32;
    bytes += "PK\x01\x02";
    put(bytes, uint16_t{45});
    put(bytes, static_cast<uint16_t>(large ? 45 : 20));
    put(bytes, uint16_t{0x0800});
    put(bytes, uint16_t{0});
    put(bytes, uint32_t{0x00210000});
    put(bytes, entry.crc);
    put(bytes, static_cast<uint32_t>(large ? kMost32 : entry.size));
    put(bytes, static_cast<uint32_t>(large ? kMost32 : entry.size));
    put(bytes, static_cast<uint16_t>(entry.name.size()));
    put(bytes, static_cast<uint16_t>(large ? 28 : 0));
    bytes.append(6, '\0');  // no comment, disk 0, internal attributes
    put(bytes, uint32_t{0});
    put(bytes, static_cast<uint32_t>(large ? kMost32 : entry.offset));
    bytes += entry.name;
    if (!large) continue;
    put(bytes, uint16_t{1});
    put(bytes, uint16_t{24});
    put(bytes, entry.size);
    put(bytes, entry.size);
    put(bytes, entry.offset);
  }
  const auto count = static_cast<int64_t>(entries_.size());
  const auto size = static_cast<int64_t>(bytes.size());
  const bool large = count >= 0xffff || position_ >= kMost32 || size >= kMost32;
  if (large) {
    const int64_t record = position_ + size;
    bytes += "PK\x06\x06";
    put(bytes, uint64_t{44});
    put(bytes, uint16_t{45});
    put(bytes, uint16_t{45});
    bytes.append(8, '\0');
    put(bytes, count);
    put(bytes, count);
    put(bytes, size);
    put(bytes, position_);
    bytes += "PK\x06\x07";
    put(bytes, uint32_t{0});
    put(bytes, record);
    put(bytes, uint32_t{1});
  }
  bytes += "PK\x05\x06";
  bytes.append(4, '\0');
  put(bytes, static_cast<uint16_t>(large ? 0xffff : count));
  put(bytes, static_cast<uint16_t>(large ? 0xffff : count));
  put(bytes, static_cast<uint32_t>(large ? kMost32 : size));
  put(bytes, static_cast<uint32_t>(large ? kMost32 : position_));
  put(bytes, uint16_t{0});
  return bytes;
}

}  // namespace paceline::checkpoint
