#include "paceline/data/operator/fill_missing.h"

#include <arrow/array.h>
#include <arrow/compute/api.h>
#include <arrow/compute/expression.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include "paceline/data/operator/exact_numbers_internal.h"
#include "paceline/data/operator/expression.h"
#include "paceline/data/order/permutation.h"
#include "paceline/data/schema/missing_column_internal.h"

namespace paceline::data {
namespace {

namespace compute = arrow::compute;

// The value in another type of numbers; a null pointer where that does not hold it exactly.
arrow::Result<std::shared_ptr<arrow::Scalar>> number_as(const arrow::Scalar& value,
                                                        const std::shared_ptr<arrow::DataType>& type) {
  ARROW_ASSIGN_OR_RAISE(const auto alone, arrow::MakeArrayFromScalar(value, 1));
  ARROW_ASSIGN_OR_RAISE(const auto wide, in_wide_type(alone));
  ARROW_ASSIGN_OR_RAISE(const auto nothing, arrow::MakeArrayOfNull(type, 0));
  ARROW_ASSIGN_OR_RAISE(const auto wide_nothing, in_wide_type(nothing));
  ARROW_ASSIGN_OR_RAISE(const auto held, held_exactly(wide, wide_nothing->type()));
  if (held->null_count() > 0) return nullptr;
  const auto made = compute::Cast(*held, type);  // a narrower one of its kind
  if (!made.ok()) return nullptr;
  ARROW_ASSIGN_OR_RAISE(const auto back, in_wide_type(*made));
  if (!back->Equals(held)) return nullptr;
  return (*made)->GetScalar(0);
}

class FillMissing : public Operator {
 public:
  explicit FillMissing(FillOptions options) : options_(std::move(options)) {}

  std::string name() const override {
    return "FillMissing(" + options_.output + " = " + options_.column + ", " + options_.value->ToString() + ")";
  }
  bool keeps_rows() const override { return true; }
  int64_t bytes_besides(int64_t) const override { return 0; }  // the other columns stay what they are
  uint64_t fingerprint() const override { return mix_text(mix_text(8, name()), options_.value->type->ToString()); }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const std::shared_ptr<arrow::Schema>& input) const override {
    if (input == nullptr) return nullptr;
    ARROW_ASSIGN_OR_RAISE(const auto step, step_for(*input));
    const auto made = step->schema(input);
    return made.ok() ? made : refusal(*input, made.status());
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply(const std::shared_ptr<arrow::RecordBatch>& block,
                                                           uint64_t key) const override {
    ARROW_ASSIGN_OR_RAISE(const auto step, step_for(*block->schema()));
    const auto made = step->apply(block, key);
    return made.ok() ? made : refusal(*block->schema(), made.status());
  }

 private:
  // What is done to a column of its type.
  arrow::Result<std::shared_ptr<const Operator>> step_for(const arrow::Schema& columns) const {
    const auto field = columns.GetFieldByName(options_.column);
    if (field == nullptr) return missing_column(name(), options_.column, columns);
    const auto& type = field->type();
    std::shared_ptr<arrow::Scalar> value = options_.value;
    const bool are_numbers = holds_numbers(*type) && holds_numbers(*value->type) && type->id() != arrow::Type::NA;
    if (are_numbers && !value->type->Equals(*type)) {
      ARROW_ASSIGN_OR_RAISE(const auto held, number_as(*value, type));
      if (held != nullptr) value = held;
    }
    // Arrow takes a literal double for a float where it is one: of an int64 and 0.5 it would make floats. It does not
    // do so with a cast.
    compute::Expression fixed = compute::literal(value);
    if (arrow::is_numeric(value->type->id()) && value->type->id() != arrow::Type::HALF_FLOAT) {
      fixed = compute::call("cast", {fixed}, compute::CastOptions::Safe(value->type));
    }
    const auto column = compute::field_ref(options_.column);
    const auto missing = compute::call("is_null", {column}, compute::NullOptions(/*nan_is_null=*/true));
    return with_column(options_.output, compute::call("if_else", {missing, fixed, column}));
  }

  arrow::Status refusal(const arrow::Schema& columns, const arrow::Status& why) const {
    return why.WithMessage(name(), ": the column '", options_.column, "' has ",
                           columns.GetFieldByName(options_.column)->type()->ToString(), ", which a value of ",
                           options_.value->type->ToString(), " cannot fill: ", why.message());
  }

  const FillOptions options_;
};

}  // namespace

std::shared_ptr<const Operator> fill_missing(FillOptions options) {
  return std::make_shared<FillMissing>(std::move(options));
}

}  // namespace paceline::data
