#include "paceline/data/operator/expression.h"

#include <arrow/array.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/exec.h>
#include <arrow/compute/initialize.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include "paceline/data/operator/exact_numbers_internal.h"
#include "paceline/data/schema/missing_column_internal.h"

namespace paceline::data {
namespace {

namespace compute = arrow::compute;

// As people read it: of a cast, which type it is to, without the options that Arrow shows behind.
std::string text_of(const compute::Expression& expression) {
  std::string text = expression.ToString();
  for (size_t at = 0; (at = text.find(", allow_int_overflow=", at)) != std::string::npos;) {
    text.erase(at, text.find('}', at) - at);
  }
  return text;
}

// One for each kind of operator below: binds its expression to the columns it meets.
class ExpressionOperator : public Operator {
 public:
  explicit ExpressionOperator(compute::Expression expression) : expression_(std::move(expression)) {}

  std::string name() const override { return name_with(text_of(expression_)); }
  uint64_t fingerprint() const override { return mix_text(0, name_with(expression_.ToString())); }

 protected:
  virtual std::string name_with(const std::string& expression) const = 0;
  arrow::Result<compute::Expression> bound(const arrow::Schema& schema) const {
    static const arrow::Status kInitialized = compute::Initialize();
    ARROW_RETURN_NOT_OK(kInitialized);
    ARROW_RETURN_NOT_OK(check_columns(name(), expression_, schema));
    auto bound = expression_.Bind(schema);
    if (!bound.ok()) return arrow::Status::Invalid(name(), ": ", bound.status().message());  // as it is, for users
    return bound;
  }

  // The expression's value for each row.
  arrow::Result<std::shared_ptr<arrow::Array>> value_of(const arrow::RecordBatch& block) const {
    ARROW_ASSIGN_OR_RAISE(const compute::Expression expression, bound(*block.schema()));
    const compute::ExecBatch rows(block);
    ARROW_ASSIGN_OR_RAISE(const arrow::Datum value, compute::ExecuteScalarExpression(expression, rows));
    if (value.is_scalar()) return arrow::MakeArrayFromScalar(*value.scalar(), block.num_rows());
    return value.make_array();
  }

 private:
  const compute::Expression expression_;
};

class Filter : public ExpressionOperator {
 public:
  using ExpressionOperator::ExpressionOperator;

  bool keeps_rows() const override { return false; }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const std::shared_ptr<arrow::Schema>& input) const override {
    if (input == nullptr) return nullptr;
    ARROW_ASSIGN_OR_RAISE(const compute::Expression condition, bound(*input));
    if (condition.type()->id() != arrow::Type::BOOL) {
      return arrow::Status::Invalid(name(), " is no condition: its values are ", condition.type()->ToString());
    }
    return input;
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply(const std::shared_ptr<arrow::RecordBatch>& block,
                                                           uint64_t) const override {
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Array> keep, value_of(*block));
    ARROW_ASSIGN_OR_RAISE(const arrow::Datum kept, compute::Filter(arrow::Datum(block), arrow::Datum(keep)));
    return kept.record_batch();
  }

 private:
  std::string name_with(const std::string& expression) const override { return "Filter(" + expression + ")"; }
};

class WithColumn : public ExpressionOperator {
 public:
  WithColumn(std::string column, compute::Expression value, std::vector<std::string> numbers)
      : ExpressionOperator(std::move(value)), column_(std::move(column)), numbers_(std::move(numbers)) {}

  bool keeps_rows() const override { return true; }
  int64_t bytes_besides(int64_t) const override { return 0; }  // the other columns stay what they are

  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const std::shared_ptr<arrow::Schema>& input) const override {
    if (input == nullptr) return nullptr;
    ARROW_RETURN_NOT_OK(check_numbers(*input));
    ARROW_ASSIGN_OR_RAISE(const compute::Expression value, bound(*input));
    const auto field = arrow::field(column_, value.type()->GetSharedPtr());
    const int place = input->GetFieldIndex(column_);
    return place < 0 ? input->AddField(input->num_fields(), field) : input->SetField(place, field);
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply(const std::shared_ptr<arrow::RecordBatch>& block,
                                                           uint64_t) const override {
    ARROW_RETURN_NOT_OK(check_numbers(*block->schema()));
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Array> values, value_of(*block));
    const auto field = arrow::field(column_, values->type());
    const int place = block->schema()->GetFieldIndex(column_);
    if (place < 0) return block->AddColumn(block->num_columns(), field, values);
    return block->SetColumn(place, field, values);
  }

 private:
  std::string name_with(const std::string& expression) const override {
    return "WithColumn(" + column_ + " = " + expression + ")";
  }

  // Of those that are there.
  arrow::Status check_numbers(const arrow::Schema& columns) const {
    for (const std::string& column : numbers_) {
      const auto field = columns.GetFieldByName(column);
      if (field == nullptr || holds_numbers(*field->type())) continue;
      return arrow::Status::Invalid(name(), ": the column '", column, "' has ", field->type()->ToString(),
                                    "; wanted: numbers");
    }
    return arrow::Status::OK();
  }

  const std::string column_;
  const std::vector<std::string> numbers_;
};

}  // namespace

std::shared_ptr<const Operator> filter(compute::Expression condition) {
  return std::make_shared<Filter>(std::move(condition));
}

std::shared_ptr<const Operator> with_column(std::string name, compute::Expression value,
                                            std::vector<std::string> numbers) {
  return std::make_shared<WithColumn>(std::move(name), std::move(value), std::move(numbers));
}

}  // namespace paceline::data
