#include "paceline/data/operator/part_by_hash.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/compute/cast.h>
#include <arrow/compute/initialize.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/order/permutation.h"
#include "paceline/data/rows/gather.h"
#include "paceline/data/schema/missing_column_internal.h"

namespace paceline::data {
namespace {

// The values as texts or bytes.
arrow::Result<std::shared_ptr<arrow::Array>> as_texts(const std::shared_ptr<arrow::Array>& values) {
  static const arrow::Status kInitialized = arrow::compute::Initialize();
  ARROW_RETURN_NOT_OK(kInitialized);
  if (values->type_id() == arrow::Type::DICTIONARY) {
    const auto& words = static_cast<const arrow::DictionaryType&>(*values->type()).value_type();
    ARROW_ASSIGN_OR_RAISE(const auto decoded, arrow::compute::Cast(*values, words));
    return as_texts(decoded);
  }
  const bool is_binary = arrow::is_binary_like(values->type_id()) || arrow::is_fixed_size_binary(values->type_id());
  const auto texts = arrow::compute::Cast(*values, is_binary ? arrow::large_binary() : arrow::large_utf8());
  if (texts.ok()) return texts;
  arrow::LargeBinaryBuilder builder;  // of lists, structs
  for (int64_t row = 0; row < values->length(); ++row) {
    ARROW_ASSIGN_OR_RAISE(const auto value, values->GetScalar(row));
    ARROW_RETURN_NOT_OK(value->is_valid ? builder.Append(value->ToString()) : builder.AppendNull());
  }
  return builder.Finish();
}

class PartByHash : public Operator {
 public:
  explicit PartByHash(HashPartOptions options) : options_(std::move(options)) {}

  std::string name() const override {
    return std::string(options_.complement ? "WithoutPartByHash(" : "PartByHash(") + options_.column + ", " +
           Json(options_.fraction).dump() + ")";
  }
  bool keeps_rows() const override { return false; }
  uint64_t fingerprint() const override { return mix_text(4, name()); }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const std::shared_ptr<arrow::Schema>& input) const override {
    if (input != nullptr) ARROW_RETURN_NOT_OK(place_in(*input).status());
    return input;
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply(const std::shared_ptr<arrow::RecordBatch>& block,
                                                           uint64_t) const override {
    ARROW_ASSIGN_OR_RAISE(const int place, place_in(*block->schema()));
    ARROW_ASSIGN_OR_RAISE(const auto texts, as_texts(block->column(place)));
    const auto& values = static_cast<const arrow::LargeBinaryArray&>(*texts);
    std::vector<uint32_t> kept;
    for (int64_t row = 0; row < values.length(); ++row) {
      const uint64_t bits = values.IsNull(row) ? mix(0, 1) : mix_text(0, values.GetView(row));
      const double from_0_to_1 = static_cast<double>(bits >> 11) * 0x1.0p-53;
      if ((from_0_to_1 < options_.fraction) != options_.complement) kept.push_back(static_cast<uint32_t>(row));
    }
    const auto rows = static_cast<int64_t>(kept.size());
    if (rows == block->num_rows() || rows == 0) return block->Slice(0, rows);
    return take_all({block}, std::move(kept), reading_memory());
  }

 private:
  arrow::Result<int> place_in(const arrow::Schema& columns) const {
    const int place = columns.GetFieldIndex(options_.column);
    if (place >= 0) return place;
    return missing_column(name(), options_.column, columns);
  }

  const HashPartOptions options_;
};

}  // namespace

std::shared_ptr<const Operator> part_by_hash(HashPartOptions options) {
  return std::make_shared<PartByHash>(std::move(options));
}

}  // namespace paceline::data
