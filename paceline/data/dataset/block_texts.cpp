#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>

#include <cmath>

#include "paceline/core/json.h"
#include "paceline/data/dataset/block_texts_internal.h"

namespace paceline::data {
namespace {

using OrderedJson = nlohmann::ordered_json;  // columns in their order

arrow::Result<OrderedJson> text_of(const arrow::Scalar& value) {
  const auto& bytes = static_cast<const arrow::BaseBinaryScalar&>(value);
  std::string text(bytes.view());
  if (!is_utf8(text)) {
    return arrow::Status::Invalid("JSON has no bytes that are not UTF-8, but this value has: ", value.ToString());
  }
  return OrderedJson(std::move(text));
}

OrderedJson number_of(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

arrow::Result<OrderedJson> json_of(const arrow::Scalar& value);

arrow::Result<OrderedJson> list_of(const arrow::Array& values) {
  OrderedJson list = OrderedJson::array();
  for (int64_t place = 0; place < values.length(); ++place) {
    ARROW_ASSIGN_OR_RAISE(const auto value, values.GetScalar(place));
    ARROW_ASSIGN_OR_RAISE(list.emplace_back(), json_of(*value));
  }
  return list;
}

arrow::Result<OrderedJson> json_of(const arrow::Scalar& value) {
  if (!value.is_valid) return OrderedJson(nullptr);
  switch (value.type->id()) {
    case arrow::Type::BOOL:
      return OrderedJson(static_cast<const arrow::BooleanScalar&>(value).value);
    case arrow::Type::FLOAT:
      return number_of(static_cast<const arrow::FloatScalar&>(value).value);
    case arrow::Type::DOUBLE:
      return number_of(static_cast<const arrow::DoubleScalar&>(value).value);
    case arrow::Type::UINT64:
      return OrderedJson(static_cast<const arrow::UInt64Scalar&>(value).value);
    case arrow::Type::INT64:
      return OrderedJson(static_cast<const arrow::Int64Scalar&>(value).value);
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::FIXED_SIZE_LIST:
    case arrow::Type::MAP:
      return list_of(*static_cast<const arrow::BaseListScalar&>(value).value);
    case arrow::Type::STRUCT: {
      const auto& parts = static_cast<const arrow::StructScalar&>(value).value;
      OrderedJson object = OrderedJson::object();
      for (size_t i = 0; i < parts.size(); ++i) {
        ARROW_ASSIGN_OR_RAISE(object[value.type->field(static_cast<int>(i))->name()], json_of(*parts[i]));
      }
      return object;
    }
    case arrow::Type::DICTIONARY: {
      ARROW_ASSIGN_OR_RAISE(const auto word, static_cast<const arrow::DictionaryScalar&>(value).GetEncodedValue());
      return json_of(*word);
    }
    case arrow::Type::EXTENSION:
      return json_of(*static_cast<const arrow::ExtensionScalar&>(value).value);
    default:
      break;
  }
  if (arrow::is_base_binary_like(value.type->id()) || arrow::is_binary_view_like(value.type->id()) ||
      arrow::is_fixed_size_binary(value.type->id())) {
    return text_of(value);
  }
  if (arrow::is_integer(value.type->id()) || value.type->id() == arrow::Type::HALF_FLOAT) {
    ARROW_ASSIGN_OR_RAISE(const auto wide,
                          value.CastTo(arrow::is_integer(value.type->id()) ? arrow::int64() : arrow::float32()));
    return json_of(*wide);
  }
  return OrderedJson(value.ToString());
}

// The numbers in a column, and the shape of a row.
struct Numbers {
  std::shared_ptr<arrow::Array> values;
  std::vector<int64_t> shape;
};

arrow::Result<Numbers> numbers_in(const arrow::Array& column) {
  Numbers numbers{.values = arrow::MakeArray(column.data()), .shape = {}};
  while (true) {
    if (numbers.values->null_count() > 0) {
      return arrow::Status::Invalid(".npy files have no nulls, but the column has; fill or filter them");
    }
    if (numbers.values->type_id() != arrow::Type::FIXED_SIZE_LIST) break;
    const auto lists = std::static_pointer_cast<arrow::FixedSizeListArray>(numbers.values);
    const int64_t size = lists->list_type()->list_size();
    numbers.shape.push_back(size);
    numbers.values = lists->values()->Slice(lists->value_offset(0), lists->length() * size);
  }
  const auto type = numbers.values->type_id();
  if (type == arrow::Type::BOOL || arrow::is_integer(type) || arrow::is_floating(type)) return numbers;
  return arrow::Status::Invalid(
      ".npy files have numbers and truth values, or tensors of them (fixed-size lists); the column has ",
      column.type()->ToString());
}

}  // namespace

arrow::Result<std::string> json_lines(const arrow::RecordBatch& block) {
  std::string lines;
  for (int64_t row = 0; row < block.num_rows(); ++row) {
    OrderedJson object = OrderedJson::object();
    for (int column = 0; column < block.num_columns(); ++column) {
      ARROW_ASSIGN_OR_RAISE(const auto value, block.column(column)->GetScalar(row));
      ARROW_ASSIGN_OR_RAISE(object[block.column_name(column)], json_of(*value));
    }
    lines += object.dump() + "\n";
  }
  return lines;
}

arrow::Result<std::string> numpy_header(const arrow::Array& column) {
  ARROW_ASSIGN_OR_RAISE(const Numbers numbers, numbers_in(column));
  const auto& type = *numbers.values->type();
  const bool is_bool = type.id() == arrow::Type::BOOL;
  const int bytes = is_bool ? 1 : type.byte_width();
  const char* const kind = is_bool                               ? "b"
                           : arrow::is_floating(type.id())       ? "f"
                           : arrow::is_signed_integer(type.id()) ? "i"
                                                                 : "u";
  std::string text = "{'descr': '" + std::string(bytes == 1 ? "|" : "<") + kind + std::to_string(bytes) +
                     "', 'fortran_order': False, 'shape': (" + std::to_string(column.length()) + ",";
  for (const int64_t size : numbers.shape) text += " " + std::to_string(size) + ",";
  text += "), }";
  constexpr size_t kBegin = 10;  // of the text: behind the format's name, version and the text's length
  constexpr size_t kAlignment = 64;
  const size_t end = (kBegin + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  text.resize(end - kBegin - 1, ' ');
  text += "\n";
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> numpy_numbers(const arrow::Array& column) {
  ARROW_ASSIGN_OR_RAISE(const Numbers numbers, numbers_in(column));
  const auto& values = *numbers.values;
  if (values.type_id() != arrow::Type::BOOL) {
    const int64_t bytes = values.type()->byte_width();
    return arrow::SliceBufferSafe(values.data()->buffers[1], values.offset() * bytes, values.length() * bytes);
  }
  std::string bytes;
  for (int64_t place = 0; place < values.length(); ++place) {
    bytes += static_cast<const arrow::BooleanArray&>(values).Value(place) ? '\1' : '\0';
  }
  return arrow::Buffer::FromString(std::move(bytes));
}

}  // namespace paceline::data
