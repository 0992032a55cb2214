#include "paceline/train/data/tensors.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/compute/cast.h>
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

namespace paceline {
namespace {

struct NumberType {
  arrow::Type::type column;
  torch::ScalarType tensor;
  std::shared_ptr<arrow::DataType> (*make)();
};

// Of numbers, which both hold in the same way.
constexpr NumberType kNumberTypes[] = {
    {arrow::Type::UINT8, torch::kUInt8, [] { return arrow::uint8(); }},
    {arrow::Type::INT8, torch::kInt8, [] { return arrow::int8(); }},
    {arrow::Type::INT16, torch::kInt16, [] { return arrow::int16(); }},
    {arrow::Type::INT32, torch::kInt32, [] { return arrow::int32(); }},
    {arrow::Type::INT64, torch::kInt64, [] { return arrow::int64(); }},
    {arrow::Type::UINT16, torch::kUInt16, [] { return arrow::uint16(); }},
    {arrow::Type::UINT32, torch::kUInt32, [] { return arrow::uint32(); }},
    {arrow::Type::UINT64, torch::kUInt64, [] { return arrow::uint64(); }},
    {arrow::Type::HALF_FLOAT, torch::kFloat16, [] { return arrow::float16(); }},
    {arrow::Type::FLOAT, torch::kFloat32, [] { return arrow::float32(); }},
    {arrow::Type::DOUBLE, torch::kFloat64, [] { return arrow::float64(); }},
};

std::optional<torch::ScalarType> scalar_type(arrow::Type::type type) {
  for (const NumberType& row : kNumberTypes) {
    if (row.column == type) return row.tensor;
  }
  return std::nullopt;
}

// The innermost values of the column, and its shape behind the rows.
struct Leaf {
  std::shared_ptr<arrow::Array> values;
  std::vector<int64_t> shape;
};

// All have the length `size`.
template <typename Lists>
arrow::Result<std::shared_ptr<arrow::Array>> values_of_lists(const Lists& list, int64_t& size) {
  if (list.null_count() != 0) return arrow::Status::Invalid("some of its lists are null; fill or filter them");
  size = list.length() == 0 ? 0 : list.value_length(0);
  for (int64_t row = 0; row < list.length(); ++row) {
    if (list.value_length(row) == size) continue;
    return arrow::Status::Invalid("its lists have different lengths (", size, " and ", list.value_length(row),
                                  "); pad them in map_batches(), or give a collate_fn");
  }
  const int64_t first = list.length() == 0 ? 0 : list.value_offset(0);
  return list.values()->Slice(first, list.length() * size);
}

arrow::Result<Leaf> leaf_of(std::shared_ptr<arrow::Array> column) {
  Leaf leaf{.values = std::move(column), .shape = {}};
  while (true) {
    const arrow::Array& array = *leaf.values;
    int64_t size = 0;
    if (array.type_id() == arrow::Type::EXTENSION) {
      leaf.values = static_cast<const arrow::ExtensionArray&>(array).storage();
      continue;
    }
    if (array.type_id() == arrow::Type::FIXED_SIZE_LIST) {
      if (array.null_count() != 0) return arrow::Status::Invalid("some of its lists are null; fill or filter them");
      const auto& list = static_cast<const arrow::FixedSizeListArray&>(array);
      size = list.list_type()->list_size();
      leaf.values = list.values()->Slice(list.offset() * size, list.length() * size);
    } else if (array.type_id() == arrow::Type::LIST) {
      ARROW_ASSIGN_OR_RAISE(leaf.values, values_of_lists(static_cast<const arrow::ListArray&>(array), size));
    } else if (array.type_id() == arrow::Type::LARGE_LIST) {
      ARROW_ASSIGN_OR_RAISE(leaf.values, values_of_lists(static_cast<const arrow::LargeListArray&>(array), size));
    } else {
      return leaf;
    }
    leaf.shape.push_back(size);
  }
}

// Keeps `array` for as long as the tensor lives.
torch::Tensor view(const std::shared_ptr<arrow::Array>& array, torch::ScalarType type) {
  const auto& data = *array->data();
  if (array->length() == 0 || data.buffers[1] == nullptr) return torch::empty({array->length()}, type);
  const auto width = static_cast<int64_t>(torch::elementSize(type));
  auto* bytes = const_cast<uint8_t*>(data.buffers[1]->data()) + data.offset * width;
  return torch::from_blob(bytes, {array->length()}, [array](void*) {}, type);
}

arrow::Result<torch::Tensor> with_nan(const std::shared_ptr<arrow::Array>& array) {
  const bool is_floating = arrow::is_floating(array->type_id());
  std::shared_ptr<arrow::Array> numbers = array;
  if (!is_floating) {
    ARROW_ASSIGN_OR_RAISE(numbers,
                          arrow::compute::Cast(*array, arrow::float64(), arrow::compute::CastOptions::Unsafe()));
  }
  torch::Tensor tensor = view(numbers, *scalar_type(numbers->type_id())).clone();
  const torch::Tensor is_null = torch::empty({array->length()}, torch::kBool);
  for (int64_t row = 0; row < array->length(); ++row) is_null.data_ptr<bool>()[row] = array->IsNull(row);
  return tensor.masked_fill_(is_null, std::numeric_limits<double>::quiet_NaN());
}

arrow::Result<torch::Tensor> truth_values(const arrow::BooleanArray& array) {
  if (array.null_count() != 0) return arrow::Status::Invalid("some of its truth values are null; fill or filter them");
  torch::Tensor tensor = torch::empty({array.length()}, torch::kBool);
  for (int64_t row = 0; row < array.length(); ++row) tensor.data_ptr<bool>()[row] = array.Value(row);
  return tensor;
}

arrow::Result<torch::Tensor> flat(const std::shared_ptr<arrow::Array>& values) {
  if (values->type_id() == arrow::Type::BOOL) return truth_values(static_cast<const arrow::BooleanArray&>(*values));
  const auto type = scalar_type(values->type_id());
  if (!type) {
    return arrow::Status::Invalid(
        "it holds ", values->type()->ToString(),
        ", which no tensor can; leave it out (drop_columns(), select_columns()), or make numbers of it: an encoder of "
        "data/preprocessor does, in Python also map_batches()");
  }
  return values->null_count() == 0 ? view(values, *type) : with_nan(values);
}

// The tensor's memory, which lives as long as the buffer.
class TensorBuffer : public arrow::Buffer {
 public:
  explicit TensorBuffer(torch::Tensor tensor)
      : Buffer(static_cast<const uint8_t*>(tensor.const_data_ptr()), static_cast<int64_t>(tensor.nbytes())),
        tensor_(std::move(tensor)) {}

 private:
  const torch::Tensor tensor_;
};

// `values` has one dimension and is contiguous.
arrow::Result<std::shared_ptr<arrow::Array>> flat_array(const torch::Tensor& values) {
  if (values.scalar_type() == torch::kBool) {
    arrow::BooleanBuilder builder;
    ARROW_RETURN_NOT_OK(
        builder.AppendValues(reinterpret_cast<const uint8_t*>(values.const_data_ptr<bool>()), values.numel()));
    return builder.Finish();
  }
  for (const NumberType& row : kNumberTypes) {
    if (row.tensor != values.scalar_type()) continue;
    return arrow::MakeArray(
        arrow::ArrayData::Make(row.make(), values.numel(), {nullptr, std::make_shared<TensorBuffer>(values)}, 0));
  }
  return arrow::Status::Invalid("it is a tensor of ", c10::toString(values.scalar_type()),
                                ", which no column can hold; make float32 of it, for example");
}

}  // namespace

arrow::Result<TensorBatch> to_tensors(const arrow::RecordBatch& rows) {
  TensorBatch batch;
  for (int i = 0; i < rows.num_columns(); ++i) {
    const std::string& name = rows.schema()->field(i)->name();
    auto tensor = to_tensor(rows.column(i));
    if (!tensor.ok()) {
      return arrow::Status::Invalid("the column '", name, "' cannot become a tensor: ", tensor.status().message());
    }
    batch[name] = *std::move(tensor);
  }
  return batch;
}

arrow::Result<std::shared_ptr<arrow::Array>> to_array(const torch::Tensor& tensor) {
  if (!tensor.defined() || tensor.dim() == 0) {
    return arrow::Status::Invalid("it is ", tensor.defined() ? "a single number" : "undefined",
                                  "; wanted a tensor whose first dimension is the rows");
  }
  const torch::Tensor values = tensor.detach().to(torch::kCPU).contiguous();
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Array> column, flat_array(values.view(-1)));
  for (int64_t dimension = values.dim() - 1; dimension > 0; --dimension) {
    const int64_t size = values.size(dimension);
    if (size == 0)
      return arrow::Status::Invalid("it has the shape ", c10::str(values.sizes()), ", of which no value is");
    ARROW_ASSIGN_OR_RAISE(column, arrow::FixedSizeListArray::FromArrays(column, static_cast<int32_t>(size)));
  }
  return column;
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> to_rows(const TensorBatch& batch,
                                                           const std::vector<std::string>& order) {
  std::vector<std::string> names;
  for (const std::string& name : order) {
    if (batch.contains(name)) names.push_back(name);
  }
  for (const auto& [name, tensor] : batch) {
    if (std::ranges::find(order, name) == order.end()) names.push_back(name);
  }
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (const std::string& name : names) {
    auto column = to_array(batch.at(name));
    if (!column.ok()) return arrow::Status::Invalid("the column '", name, "': ", column.status().message());
    if (!columns.empty() && (*column)->length() != columns.front()->length()) {
      return arrow::Status::Invalid("columns have different lengths (", names.front(), ": ", columns.front()->length(),
                                    ", ", name, ": ", (*column)->length(), ")");
    }
    fields.push_back(arrow::field(name, (*column)->type()));
    columns.push_back(*std::move(column));
  }
  const int64_t rows = columns.empty() ? 0 : columns.front()->length();
  return arrow::RecordBatch::Make(arrow::schema(std::move(fields)), rows, std::move(columns));
}

arrow::Result<torch::Tensor> to_tensor(const std::shared_ptr<arrow::Array>& column) {
  ARROW_ASSIGN_OR_RAISE(Leaf leaf, leaf_of(column));
  ARROW_ASSIGN_OR_RAISE(const torch::Tensor values, flat(leaf.values));
  if (leaf.shape.empty()) return values;
  leaf.shape.insert(leaf.shape.begin(), column->length());
  return values.view(leaf.shape);
}

}  // namespace paceline
