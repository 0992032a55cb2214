#include "paceline/data/operator/categories.h"

#include <arrow/array.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/builder.h>
#include <arrow/compute/api.h>
#include <arrow/compute/initialize.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <algorithm>
#include <cmath>

#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/operator/exact_numbers_internal.h"
#include "paceline/data/order/permutation.h"
#include "paceline/data/schema/missing_column_internal.h"
#include "paceline/data/schema/tensor_column_internal.h"

namespace paceline::data {
namespace {

namespace compute = arrow::compute;

using Type = std::shared_ptr<arrow::DataType>;
using Column = std::shared_ptr<arrow::Array>;

enum class Kind { number, text, time, other };

Kind kind_of(const arrow::DataType& type) {
  const arrow::Type::type id = type.id();
  if (id == arrow::Type::DICTIONARY) return kind_of(*static_cast<const arrow::DictionaryType&>(type).value_type());
  if (arrow::is_numeric(id) || arrow::is_decimal(id) || id == arrow::Type::BOOL) return Kind::number;
  if (arrow::is_base_binary_like(id) || arrow::is_binary_view_like(id) || id == arrow::Type::FIXED_SIZE_BINARY) {
    return Kind::text;
  }
  return arrow::is_temporal(id) ? Kind::time : Kind::other;
}

// Another type's values as those of this one; null where it has no such one, as a date of a time of day.
arrow::Result<Column> as_far_as_held(const Column& values, const Type& type, compute::ExecContext& context) {
  const compute::CastOptions unsafe = compute::CastOptions::Unsafe();
  ARROW_ASSIGN_OR_RAISE(const Column made, compute::Cast(*values, type, unsafe, &context));
  ARROW_ASSIGN_OR_RAISE(const Column back, compute::Cast(*made, values->type(), unsafe, &context));
  ARROW_ASSIGN_OR_RAISE(const arrow::Datum same, compute::CallFunction("equal", {back, values}, &context));
  ARROW_ASSIGN_OR_RAISE(const arrow::Datum held,
                        compute::CallFunction("if_else", {same, made, arrow::MakeNullScalar(type)}, &context));
  return held.make_array();
}

// Values that are looked for, and those they are looked for among, in one type that has both exactly. Among the latter
// null stands for one that none of the former can be.
struct Comparable {
  Column values;
  Column known;
};

arrow::Result<Comparable> comparable_of(Column values, Column known, compute::ExecContext& context) {
  const auto cast = [&context](const Column& column, const Type& type) {
    return compute::Cast(*column, type, compute::CastOptions::Safe(), &context);
  };
  if (values->type_id() == arrow::Type::NA) {
    ARROW_ASSIGN_OR_RAISE(values, cast(values, known->type()));
  }
  if (values->type_id() == arrow::Type::DICTIONARY) {
    ARROW_ASSIGN_OR_RAISE(values,
                          cast(values, static_cast<const arrow::DictionaryType&>(*values->type()).value_type()));
  }
  // Arrow cannot look for half-precision numbers.
  if (values->type()->Equals(*known->type()) && values->type_id() != arrow::Type::HALF_FLOAT)
    return Comparable{values, known};
  switch (kind_of(*known->type())) {
    case Kind::number: {
      ARROW_ASSIGN_OR_RAISE(values, in_wide_type(values));
      ARROW_ASSIGN_OR_RAISE(known, in_wide_type(known));
      ARROW_ASSIGN_OR_RAISE(known, held_exactly(known, values->type()));
      break;
    }
    case Kind::text: {
      ARROW_ASSIGN_OR_RAISE(values, cast(values, arrow::large_binary()));
      ARROW_ASSIGN_OR_RAISE(known, cast(known, arrow::large_binary()));
      break;
    }
    default:
      ARROW_ASSIGN_OR_RAISE(known, as_far_as_held(known, values->type(), context));
  }
  return Comparable{values, known};
}

class EncodeCategories : public Operator {
 public:
  explicit EncodeCategories(EncodeOptions options) : options_(std::move(options)) {}

  std::string name() const override {
    constexpr const char* kVerbs[] = {"OrdinalEncode(", "OneHotEncode(", "InverseEncode("};
    return kVerbs[static_cast<int>(options_.encoding)] + options_.output + " = " + options_.column + ", " +
           std::to_string(options_.values->length()) + " categories)";
  }
  bool keeps_rows() const override { return true; }
  uint64_t fingerprint() const override {
    uint64_t of_values = mix_text(5, name());
    for (int64_t place = 0; place < options_.values->length(); ++place) {
      of_values = mix_text(of_values, (*options_.values->GetScalar(place))->ToString());
    }
    return of_values;
  }
  int64_t bytes_besides(int64_t) const override { return 0; }  // the other columns stay what they are

  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const std::shared_ptr<arrow::Schema>& input) const override {
    if (input == nullptr) return nullptr;
    ARROW_RETURN_NOT_OK(place_in(*input));
    const auto field = arrow::field(options_.output, type());
    const int place = input->GetFieldIndex(options_.output);
    return place < 0 ? input->AddField(input->num_fields(), field) : input->SetField(place, field);
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply(const std::shared_ptr<arrow::RecordBatch>& block,
                                                           uint64_t) const override {
    static const arrow::Status kInitialized = compute::Initialize();
    ARROW_RETURN_NOT_OK(kInitialized);
    ARROW_ASSIGN_OR_RAISE(const int column, place_in(*block->schema()));
    auto made = encoded(block->column(column));
    if (!made.ok()) return made.status().WithMessage(name(), ": ", made.status().message());
    const auto field = arrow::field(options_.output, type());
    const int place = block->schema()->GetFieldIndex(options_.output);
    if (place < 0) return block->AddColumn(block->num_columns(), field, *made);
    return block->SetColumn(place, field, *made);
  }

 private:
  std::shared_ptr<arrow::DataType> type() const {
    if (options_.encoding == Encoding::place) return arrow::int64();
    if (options_.encoding == Encoding::inverse) return options_.values->type();
    return arrow::fixed_size_list(arrow::uint8(), static_cast<int32_t>(options_.values->length()));
  }

  arrow::Result<int> place_in(const arrow::Schema& columns) const {
    const int place = columns.GetFieldIndex(options_.column);
    if (place < 0) return missing_column(name(), options_.column, columns);
    const arrow::DataType& type = *columns.field(place)->type();
    const Kind wanted = options_.encoding == Encoding::inverse ? Kind::number : kind_of(*options_.values->type());
    if (type.id() == arrow::Type::NA || kind_of(type) == wanted) return place;
    if (options_.encoding == Encoding::inverse) {
      return arrow::Status::Invalid(name(), ": the column '", options_.column, "' has ", type.ToString(),
                                    "; wanted: places, which are integers");
    }
    return arrow::Status::Invalid(name(), ": the column '", options_.column, "' has ", type.ToString(),
                                  "; wanted, as it was learnt: ", options_.values->type()->ToString());
  }

  arrow::Result<Column> encoded(const Column& given) const {
    compute::ExecContext context(reading_memory());
    if (options_.encoding == Encoding::inverse) return values_at(given, context);
    ARROW_ASSIGN_OR_RAISE(const arrow::Datum missing, compute::IsNull(given, compute::NullOptions(true), &context));
    if (missing.array_as<arrow::BooleanArray>()->true_count() > 0) {
      return arrow::Status::Invalid("the column '", options_.column,
                                    "' has nulls; fill them first, as with SimpleImputer, or filter them");
    }
    ARROW_ASSIGN_OR_RAISE(auto comparable, comparable_of(given, options_.values, context));
    auto& [values, known] = comparable;
    if (values->type_id() == arrow::Type::FLOAT || values->type_id() == arrow::Type::DOUBLE) {
      ARROW_ASSIGN_OR_RAISE(const auto zero, arrow::MakeScalar(values->type(), 0));
      ARROW_ASSIGN_OR_RAISE(const arrow::Datum sum,
                            compute::Add(values, zero, compute::ArithmeticOptions(), &context));  // -0.0 becomes 0.0
      values = sum.make_array();
    }
    const compute::SetLookupOptions lookup(known);
    ARROW_ASSIGN_OR_RAISE(const arrow::Datum found, compute::IndexIn(values, lookup, &context));
    const Column places = found.make_array();
    if (options_.encoding == Encoding::one_hot) return hot(static_cast<const arrow::Int32Array&>(*places));
    return compute::Cast(*places, arrow::int64(), compute::CastOptions::Safe(), &context);
  }

  arrow::Result<Column> hot(const arrow::Int32Array& places) const {
    const int64_t rows = places.length();
    const int64_t width = options_.values->length();
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(rows * width, reading_memory()));
    auto* const ones = buffer->mutable_data_as<uint8_t>();
    std::fill_n(ones, rows * width, uint8_t{0});
    for (int64_t row = 0; row < rows; ++row) {
      if (places.IsValid(row)) ones[row * width + places.Value(row)] = 1;
    }
    return tensor_column(std::make_shared<arrow::UInt8Array>(rows * width, std::move(buffer)), type(), rows);
  }

  arrow::Result<Column> values_at(const Column& given, compute::ExecContext& context) const {
    Column places;
    if (given->type_id() == arrow::Type::NA) {
      ARROW_ASSIGN_OR_RAISE(places, arrow::MakeArrayOfNull(arrow::int64(), given->length(), reading_memory()));
    } else {
      ARROW_ASSIGN_OR_RAISE(places, in_wide_type(given));
    }
    ARROW_RETURN_NOT_OK(refuse_fractions(places, context));
    ARROW_ASSIGN_OR_RAISE(places, held_exactly(places, arrow::int64()));
    const auto& numbers = static_cast<const arrow::Int64Array&>(*places);
    arrow::Int64Builder known(reading_memory());
    ARROW_RETURN_NOT_OK(known.Reserve(numbers.length()));
    for (int64_t row = 0; row < numbers.length(); ++row) {
      const bool is_one =
          numbers.IsValid(row) && numbers.Value(row) >= 0 && numbers.Value(row) < options_.values->length();
      is_one ? known.UnsafeAppend(numbers.Value(row)) : known.UnsafeAppendNull();
    }
    ARROW_ASSIGN_OR_RAISE(const Column indices, known.Finish());
    return compute::Take(*options_.values, *indices, compute::TakeOptions::NoBoundsCheck(), &context);
  }

  arrow::Status refuse_fractions(const Column& given, compute::ExecContext& context) const {
    if (!arrow::is_floating(given->type_id()) && !arrow::is_decimal(given->type_id())) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(const Column values,
                          compute::Cast(*given, arrow::float64(), compute::CastOptions::Safe(), &context));
    const auto& numbers = static_cast<const arrow::DoubleArray&>(*values);
    for (int64_t row = 0; row < numbers.length(); ++row) {
      const double number = numbers.Value(row);
      if (numbers.IsNull(row) || !std::isfinite(number) || std::trunc(number) == number) continue;
      return arrow::Status::Invalid("the column '", options_.column, "' has ", arrow::DoubleScalar(number).ToString(),
                                    "; wanted: places, which are ", "integers: round them first");
    }
    return arrow::Status::OK();
  }

  const EncodeOptions options_;
};

}  // namespace

std::shared_ptr<const Operator> encode_categories(EncodeOptions options) {
  return std::make_shared<EncodeCategories>(std::move(options));
}

}  // namespace paceline::data
