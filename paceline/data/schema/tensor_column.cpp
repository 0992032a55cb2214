#include <arrow/array.h>
#include <arrow/type.h>

#include <limits>

#include "paceline/data/schema/tensor_column_internal.h"

namespace paceline::data {

arrow::Result<std::shared_ptr<arrow::DataType>> tensor_type(std::shared_ptr<arrow::DataType> value,
                                                            const std::vector<int64_t>& shape) {
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] < 0 || shape[i] > std::numeric_limits<int32_t>::max()) {
      return arrow::Status::Invalid("a dimension of a tensor is ", shape[i], "; it can be 0 to 2147483647");
    }
    value = arrow::fixed_size_list(std::move(value), static_cast<int32_t>(shape[i]));
  }
  return value;
}

arrow::Result<int64_t> count_values(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size > 0 && count > (int64_t{1} << 59) / size) return arrow::Status::Invalid("a tensor is too large");
    count *= size;
  }
  return count;
}

std::shared_ptr<arrow::Array> tensor_column(std::shared_ptr<arrow::Array> values,
                                            const std::shared_ptr<arrow::DataType>& type, int64_t rows) {
  if (type->id() != arrow::Type::FIXED_SIZE_LIST) return values;
  const auto& list = static_cast<const arrow::FixedSizeListType&>(*type);
  auto children = tensor_column(std::move(values), list.value_type(), rows * list.list_size());
  return std::make_shared<arrow::FixedSizeListArray>(type, rows, std::move(children));
}

}  // namespace paceline::data
