#include "paceline/train/data/tensors.h"

#include <arrow/array.h>
#include <arrow/compute/cast.h>
#include <arrow/extension_type.h>
#include <arrow/type.h>
#include <torch/torch.h>

#include <limits>
#include <optional>
#include <vector>

namespace paceline {
namespace {

std::optional<torch::ScalarType> scalar_type(arrow::Type::type type) {
  switch (type) {
    case arrow::Type::UINT8:
      return torch::kUInt8;
    case arrow::Type::INT8:
      return torch::kInt8;
    case arrow::Type::INT16:
      return torch::kInt16;
    case arrow::Type::INT32:
      return torch::kInt32;
    case arrow::Type::INT64:
      return torch::kInt64;
    case arrow::Type::UINT16:
      return torch::kUInt16;
    case arrow::Type::UINT32:
      return torch::kUInt32;
    case arrow::Type::UINT64:
      return torch::kUInt64;
    case arrow::Type::HALF_FLOAT:
      return torch::kFloat16;
    case arrow::Type::FLOAT:
      return torch::kFloat32;
    case arrow::Type::DOUBLE:
      return torch::kFloat64;
    default:
      return std::nullopt;
  }
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
        ", which no tensor can; leave it out (drop_columns, columns=…), make numbers of it in "
        "map_batches(), or take iter_batches()");
  }
  return values->null_count() == 0 ? view(values, *type) : with_nan(values);
}

}  // namespace

arrow::Result<torch::Tensor> to_tensor(const std::shared_ptr<arrow::Array>& column) {
  ARROW_ASSIGN_OR_RAISE(Leaf leaf, leaf_of(column));
  ARROW_ASSIGN_OR_RAISE(const torch::Tensor values, flat(leaf.values));
  if (leaf.shape.empty()) return values;
  leaf.shape.insert(leaf.shape.begin(), column->length());
  return values.view(leaf.shape);
}

}  // namespace paceline
