#include <arrow/type.h>

#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "paceline/data/format/numpy_header_internal.h"

namespace paceline::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

int64_t byte_of(std::string_view text, size_t place) {
  return static_cast<uint8_t>(text[place]);
}

// "{'descr': '<f4', 'shape': (3, 4), }" and "shape" → "(3, 4), }"; blanks between them are skipped.
std::optional<std::string_view> value_of(std::string_view header, std::string_view name) {
  for (const char quote : {'\'', '"'}) {
    const std::string key = quote + std::string(name) + quote;
    size_t at = header.find(key);
    if (at == std::string_view::npos) continue;
    at = header.find_first_not_of(" \t", at + key.size());
    if (at == std::string_view::npos || header[at] != ':') continue;
    at = header.find_first_not_of(" \t", at + 1);
    if (at != std::string_view::npos) return header.substr(at);
  }
  return std::nullopt;
}

std::shared_ptr<arrow::DataType> type_of(std::string_view name) {
  static const std::array<std::pair<std::string_view, std::shared_ptr<arrow::DataType>>, 12> kTypes = {
      {{"b1", arrow::boolean()},
       {"i1", arrow::int8()},
       {"u1", arrow::uint8()},
       {"i2", arrow::int16()},
       {"u2", arrow::uint16()},
       {"i4", arrow::int32()},
       {"u4", arrow::uint32()},
       {"i8", arrow::int64()},
       {"u8", arrow::uint64()},
       {"f2", arrow::float16()},
       {"f4", arrow::float32()},
       {"f8", arrow::float64()}}};
  for (const auto& [known, type] : kTypes) {
    if (known == name) return type;
  }
  return nullptr;
}

// "(3, 4)", "(3,)", "()".
arrow::Result<std::vector<int64_t>> parse_shape(std::string_view text) {
  const auto damaged = [] { return arrow::Status::Invalid("its header is damaged: it has no shape"); };
  const size_t end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos) return damaged();
  text = text.substr(1, end - 1);
  std::vector<int64_t> shape;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
    if (text.empty()) return shape;
    int64_t size = 0;
    const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0) return damaged();
    shape.push_back(size);
    text.remove_prefix(static_cast<size_t>(next - text.data()));
    if (text.starts_with('L')) text.remove_prefix(1);  // Python 2 wrote "3L"
    if (!text.empty() && text.front() != ',' && text.front() != ' ') return damaged();
  }
}

}  // namespace

arrow::Result<int64_t> numpy_data_begin(std::string_view prefix) {
  if (!prefix.starts_with(kMagic)) {
    return arrow::Status::Invalid("it does not begin as a .npy file does; write it with numpy.save()");
  }
  if (prefix.size() < kNumpyPrefixBytes) return arrow::Status::Invalid("its header is cut off");
  const int64_t version = byte_of(prefix, 6);
  if (version < 1 || version > 3) {
    return arrow::Status::Invalid("it has version ", version, " of the format; 1 to 3 are read");
  }
  const int64_t low = byte_of(prefix, 8) | byte_of(prefix, 9) << 8;
  return version == 1 ? 10 + low : 12 + (low | byte_of(prefix, 10) << 16 | byte_of(prefix, 11) << 24);
}

arrow::Result<NumpyHeader> parse_numpy_header(std::string_view header) {
  const auto descr = value_of(header, "descr"), order = value_of(header, "fortran_order"),
             shape = value_of(header, "shape");
  if (!descr || !order || !shape) return arrow::Status::Invalid("its header is damaged");
  const bool is_simple = descr->size() > 3 && (descr->front() == '\'' || descr->front() == '"');
  const size_t end = is_simple ? descr->find(descr->front(), 1) : std::string_view::npos;
  const std::string_view written =
      end == std::string_view::npos ? descr->substr(0, descr->find("'fortran")) : descr->substr(1, end - 1);
  NumpyHeader parsed;
  if (is_simple && written.size() > 1) parsed.type = type_of(written.substr(1));
  if (parsed.type == nullptr) {
    return arrow::Status::Invalid("its numbers are ", written,
                                  " (numpy.dtype); booleans, integers and floats of at most 64 bits are read");
  }
  parsed.value_bytes = written.back() - '0';
  if (written.front() == '>' && parsed.value_bytes > 1) {
    return arrow::Status::Invalid("its numbers are big-endian (", written,
                                  "); write it with array.astype(array.dtype.newbyteorder('<'))");
  }
  ARROW_ASSIGN_OR_RAISE(parsed.shape, parse_shape(*shape));
  if (order->starts_with("True") && parsed.shape.size() > 1) {
    return arrow::Status::Invalid("its elements are in Fortran's order, in which a row is not in one piece; write it ",
                                  "with numpy.save(path, numpy.ascontiguousarray(array))");
  }
  return parsed;
}

}  // namespace paceline::data
