#include <arrow/array.h>
#include <arrow/compute/cast.h>
#include <arrow/extension/fixed_shape_tensor.h>
#include <arrow/type.h>
#include <arrow/util/bitmap_ops.h>
#include <arrow/util/key_value_metadata.h>

#include <nlohmann/json.hpp>

#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/schema/ray_tensor_internal.h"

namespace paceline::data {
namespace {

constexpr const char* kExtensionName = "ARROW:extension:name";
constexpr const char* kExtensionMetadata = "ARROW:extension:metadata";

const arrow::FixedSizeListType* fixed_lists(const arrow::DataType& type) {
  const arrow::DataType* storage = &type;
  if (type.id() == arrow::Type::EXTENSION) {
    const auto& extension = static_cast<const arrow::ExtensionType&>(type);
    if (extension.extension_name() != "arrow.fixed_shape_tensor") return nullptr;
    storage = extension.storage_type().get();
  }
  if (storage->id() != arrow::Type::FIXED_SIZE_LIST) return nullptr;
  return static_cast<const arrow::FixedSizeListType*>(storage);
}

// The shape in Ray's metadata, "[2, 3]"; empty where it cannot be read.
std::vector<int32_t> shape_in(const std::string& metadata) {
  const auto json = nlohmann::json::parse(metadata, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return {};
  std::vector<int32_t> shape;
  for (const auto& size : json) {
    if (!size.is_number_unsigned()) return {};
    shape.push_back(size.get<int32_t>());
  }
  return shape;
}

}  // namespace

std::optional<TensorLayout> tensor_layout(const arrow::DataType& type) {
  const arrow::FixedSizeListType* list = fixed_lists(type);
  if (list == nullptr) return std::nullopt;
  TensorLayout layout{.values_of_row = 1};
  while (true) {
    layout.values_of_row *= list->list_size();
    layout.value_type = list->value_type();
    if (layout.value_type->id() != arrow::Type::FIXED_SIZE_LIST) return layout;
    list = static_cast<const arrow::FixedSizeListType*>(layout.value_type.get());
  }
}

std::shared_ptr<arrow::Field> without_ray_tensor(const std::shared_ptr<arrow::Field>& field) {
  if (field->metadata() == nullptr) return field;
  const auto name = field->metadata()->Get(kExtensionName);
  if (!name.ok() || (*name != "ray.data.arrow_tensor" && *name != "ray.data.arrow_tensor_v2")) return field;
  const std::vector<int32_t> shape = shape_in(field->metadata()->Get(kExtensionMetadata).ValueOr(""));
  const auto id = field->type()->id();
  if (shape.empty() || (id != arrow::Type::LIST && id != arrow::Type::LARGE_LIST)) return field;
  auto type = static_cast<const arrow::BaseListType&>(*field->type()).value_type();
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) type = arrow::fixed_size_list(type, *size);
  return arrow::field(field->name(), std::move(type), field->nullable());
}

std::shared_ptr<arrow::ArrayData> nested(const std::shared_ptr<arrow::DataType>& type,
                                         const std::shared_ptr<arrow::ArrayData>& values, int64_t length) {
  if (type->id() != arrow::Type::FIXED_SIZE_LIST) return values;
  const auto& list = static_cast<const arrow::FixedSizeListType&>(*type);
  return arrow::ArrayData::Make(type, length, {nullptr}, {nested(list.value_type(), values, length * list.list_size())},
                                /*null_count=*/0);
}

std::shared_ptr<arrow::Array> tensors_of(const std::shared_ptr<arrow::DataType>& type,
                                         const std::shared_ptr<arrow::ArrayData>& values, int64_t rows) {
  if (type->id() != arrow::Type::EXTENSION) return arrow::MakeArray(nested(type, values, rows));
  const auto& storage = static_cast<const arrow::ExtensionType&>(*type).storage_type();
  return arrow::ExtensionType::WrapArray(type, arrow::MakeArray(nested(storage, values, rows)));
}

arrow::Result<std::shared_ptr<arrow::Array>> lists_as_tensors(const std::shared_ptr<arrow::Array>& lists,
                                                              const std::shared_ptr<arrow::DataType>& type) {
  const auto known = tensor_layout(*type);
  if (!known || type->id() != arrow::Type::FIXED_SIZE_LIST) {
    return arrow::Status::Invalid("lists become tensors, not ", type->ToString());
  }
  const TensorLayout& layout = *known;
  const auto flat = arrow::fixed_size_list(layout.value_type, static_cast<int32_t>(layout.values_of_row));
  ARROW_ASSIGN_OR_RAISE(const auto cast, arrow::compute::Cast(*lists, flat));
  const auto& tensors = static_cast<const arrow::FixedSizeListArray&>(*cast);
  const auto& outer = static_cast<const arrow::FixedSizeListType&>(*type);
  const auto values = tensors.values()->Slice(tensors.value_offset(0), tensors.length() * layout.values_of_row);
  const auto inner = nested(outer.value_type(), values->data(), tensors.length() * outer.list_size());
  std::shared_ptr<arrow::Buffer> validity = tensors.null_count() > 0 ? tensors.null_bitmap() : nullptr;
  if (validity != nullptr && tensors.offset() > 0) {  // a slice of what was decoded
    ARROW_ASSIGN_OR_RAISE(
        validity, arrow::internal::CopyBitmap(reading_memory(), validity->data(), tensors.offset(), tensors.length()));
  }
  return arrow::MakeArray(arrow::ArrayData::Make(type, tensors.length(), {std::move(validity)}, {inner}));
}

}  // namespace paceline::data
