#include "paceline/data/source/plain_tensors.h"

#include <arrow/array.h>
#include <arrow/extension/fixed_shape_tensor.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>

#include "paceline/data/schema/ray_tensor_internal.h"

namespace paceline::data {
namespace {

using Tensor = arrow::extension::FixedShapeTensorType;

const Tensor* tensor_type(const arrow::DataType& type) {
  const bool is_tensor = type.id() == arrow::Type::EXTENSION &&
                         static_cast<const arrow::ExtensionType&>(type).extension_name() == "arrow.fixed_shape_tensor";
  return is_tensor ? &static_cast<const Tensor&>(type) : nullptr;
}

arrow::Result<std::shared_ptr<arrow::Field>> plain(const std::shared_ptr<arrow::Field>& field) {
  const Tensor* tensor = tensor_type(*field->type());
  if (tensor == nullptr) return field;
  if (!std::ranges::is_sorted(tensor->permutation())) {
    return arrow::Status::Invalid("the dimensions of the tensors in the column '", field->name(), "' are permuted (",
                                  tensor->ToString(), "); write them in the order in which they stand in memory");
  }
  auto type = tensor->value_type();
  for (auto size = tensor->shape().rbegin(); size != tensor->shape().rend(); ++size) {
    type = arrow::fixed_size_list(type, static_cast<int32_t>(*size));
  }
  return field->WithType(std::move(type));
}

std::shared_ptr<arrow::Array> plain(const std::shared_ptr<arrow::Array>& column,
                                    const std::shared_ptr<arrow::DataType>& type) {
  if (tensor_type(*column->type()) == nullptr) return column;
  const auto lists = static_cast<const arrow::ExtensionArray&>(*column).storage()->data()->Copy();
  const int64_t size = static_cast<const arrow::FixedSizeListType&>(*type).list_size();
  const auto& inner = static_cast<const arrow::FixedSizeListType&>(*type).value_type();
  lists->type = type;
  lists->child_data[0] = nested(inner, lists->child_data[0], (lists->offset + lists->length) * size);
  return arrow::MakeArray(lists);
}

class PlainTensors : public Source {
 public:
  PlainTensors(std::shared_ptr<const Source> source, std::shared_ptr<arrow::Schema> schema)
      : source_(std::move(source)), schema_(std::move(schema)) {}

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_; }
  const std::vector<ChunkSize>& chunks() const override { return source_->chunks(); }
  bool counts_rows() const override { return source_->counts_rows(); }
  bool has_rows_in_memory() const override { return source_->has_rows_in_memory(); }
  uint64_t fingerprint() const override { return source_->fingerprint(); }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override {
    ARROW_ASSIGN_OR_RAISE(const auto batch, source_->read(chunk, key));
    arrow::ArrayVector columns;
    for (int i = 0; i < batch->num_columns(); ++i)
      columns.push_back(plain(batch->column(i), schema_->field(i)->type()));
    return arrow::RecordBatch::Make(schema_, batch->num_rows(), std::move(columns));
  }

 private:
  const std::shared_ptr<const Source> source_;
  const std::shared_ptr<arrow::Schema> schema_;
};

}  // namespace

arrow::Result<std::shared_ptr<const Source>> with_plain_tensors(std::shared_ptr<const Source> source) {
  ARROW_ASSIGN_OR_RAISE(const auto schema, source->schema());
  arrow::FieldVector fields;
  for (const auto& field : schema->fields()) {
    ARROW_ASSIGN_OR_RAISE(auto one, plain(field));
    fields.push_back(std::move(one));
  }
  if (fields == schema->fields()) return source;
  return std::make_shared<PlainTensors>(std::move(source), arrow::schema(std::move(fields)));
}

}  // namespace paceline::data
