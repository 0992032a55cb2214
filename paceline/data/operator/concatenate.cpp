#include "paceline/data/operator/concatenate.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/compute/api.h>
#include <arrow/compute/initialize.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/order/permutation.h"
#include "paceline/data/schema/missing_column_internal.h"
#include "paceline/data/schema/ray_tensor_internal.h"
#include "paceline/data/schema/tensor_column_internal.h"

namespace paceline::data {
namespace {

namespace compute = arrow::compute;

using Type = std::shared_ptr<arrow::DataType>;
using Column = std::shared_ptr<arrow::Array>;

bool is_number(const arrow::DataType& type) {
  return arrow::is_numeric(type.id()) || type.id() == arrow::Type::BOOL;
}

// As numpy finds it, but that integers are int64 wherever types differ.
Type common_type(const std::vector<Type>& types) {
  const auto is_like_first = [&](const Type& type) { return type->Equals(*types.front()); };
  if (std::ranges::all_of(types, is_like_first)) return types.front();
  const auto is_integer = [](const Type& type) { return !arrow::is_floating(type->id()); };
  const auto is_uint64 = [](const Type& type) { return type->id() == arrow::Type::UINT64; };
  if (std::ranges::all_of(types, is_integer) && std::ranges::none_of(types, is_uint64)) return arrow::int64();
  const auto is_narrow = [](const Type& type) {
    return type->id() == arrow::Type::FLOAT || type->id() == arrow::Type::HALF_FLOAT;
  };
  return std::ranges::all_of(types, is_narrow) ? arrow::float32() : arrow::float64();
}

// The integers of a type.
struct Range {
  __int128 least = 0;
  __int128 greatest = 0;
};

Range range_of(const arrow::DataType& type) {
  const bool is_signed = arrow::is_signed_integer(type.id());
  const __int128 half = __int128{1} << (type.byte_width() * 8 - 1);
  return is_signed ? Range{-half, half - 1} : Range{0, 2 * half - 1};
}

// Of a double, without its fraction; of a null, too.
bool fits(const arrow::Scalar& number, const Range& range) {
  if (!number.is_valid) return true;
  if (number.type->id() == arrow::Type::DOUBLE) {
    const double whole = std::trunc(static_cast<const arrow::DoubleScalar&>(number).value);
    // Both are powers of 2, or 0, which double has; the greatest one itself it may not have.
    return whole >= static_cast<double>(range.least) && whole < static_cast<double>(range.greatest + 1);
  }
  const __int128 integer = number.type->id() == arrow::Type::INT64
                               ? __int128{static_cast<const arrow::Int64Scalar&>(number).value}
                               : __int128{static_cast<const arrow::UInt64Scalar&>(number).value};
  return integer >= range.least && integer <= range.greatest;
}

// One behind the other, those of all rows.
arrow::Result<Column> flat_values(Column column) {
  while (column->type_id() == arrow::Type::FIXED_SIZE_LIST) {
    if (column->null_count() > 0) return arrow::Status::Invalid("has rows that are null");
    ARROW_ASSIGN_OR_RAISE(column, static_cast<const arrow::FixedSizeListArray&>(*column).Flatten());
  }
  return column;
}

// Copies `width` numbers of `bytes` bytes a row to every `of_all`th place.
template <int64_t bytes>
void scatter(const uint8_t* from, int64_t rows, int64_t width, uint8_t* to, int64_t of_all) {
  for (int64_t row = 0; row < rows; ++row, to += of_all * bytes) {
    for (int64_t i = 0; i < width; ++i, from += bytes) std::memcpy(to + i * bytes, from, bytes);
  }
}

class ConcatenateColumns : public Operator {
 public:
  explicit ConcatenateColumns(ConcatenateOptions options) : options_(std::move(options)) {}

  std::string name() const override {
    std::string text = "Concatenate(" + options_.output + " = ";
    for (const std::string& column : options_.columns)
      text += (&column == options_.columns.data() ? "" : ", ") + column;
    return text + (options_.type == nullptr ? ")" : ": " + options_.type->ToString() + ")");
  }
  bool keeps_rows() const override { return true; }
  uint64_t fingerprint() const override { return mix_text(options_.flatten ? 7 : 6, name()); }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const std::shared_ptr<arrow::Schema>& input) const override {
    if (input == nullptr) return nullptr;
    ARROW_ASSIGN_OR_RAISE(const Layout layout, layout_of(*input));
    arrow::FieldVector fields;
    for (const int column : layout.others) fields.push_back(input->field(column));
    fields.push_back(arrow::field(options_.output, layout.type));
    return arrow::schema(std::move(fields));
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply(const std::shared_ptr<arrow::RecordBatch>& block,
                                                           uint64_t) const override {
    static const arrow::Status kInitialized = compute::Initialize();
    ARROW_RETURN_NOT_OK(kInitialized);
    ARROW_ASSIGN_OR_RAISE(const Layout layout, layout_of(*block->schema()));
    ARROW_ASSIGN_OR_RAISE(const auto made, schema(block->schema()));
    arrow::ArrayVector columns;
    for (const int column : layout.others) columns.push_back(block->column(column));
    ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), arrays_of(*block, layout));
    return arrow::RecordBatch::Make(made, block->num_rows(), std::move(columns));
  }

 private:
  struct Layout {
    std::vector<int> columns;     // in the order of the arrays
    std::vector<int64_t> widths;  // of each, in numbers of a row
    std::vector<int> others;      // that stay
    Type number;                  // of the arrays
    Type type;                    // the arrays' own
    int64_t width = 0;
  };

  arrow::Result<Layout> layout_of(const arrow::Schema& input) const {
    Layout layout;
    std::vector<Type> types;
    for (const std::string& column : options_.columns) {
      const int place = input.GetFieldIndex(column);
      if (place < 0) return missing_column(name(), column, input);
      const Type& type = input.field(place)->type();
      const bool is_list = type->id() == arrow::Type::FIXED_SIZE_LIST;
      const auto tensor = is_list && options_.flatten ? tensor_layout(*type) : std::nullopt;
      const Type number = tensor ? tensor->value_type : type;
      if (!is_number(*number)) {
        return arrow::Status::Invalid(name(), ": the column '", column, "' has ", type->ToString(), "; wanted: numbers",
                                      is_list ? ", or flatten" : "");
      }
      layout.columns.push_back(place);
      layout.widths.push_back(tensor ? tensor->values_of_row : 1);
      layout.width += layout.widths.back();
      types.push_back(number);
    }
    if (types.empty()) return arrow::Status::Invalid(name(), ": there are no columns");
    layout.number = options_.type != nullptr ? options_.type : common_type(types);
    if (layout.number->id() == arrow::Type::BOOL) layout.number = arrow::uint8();  // whose numbers are bytes
    ARROW_ASSIGN_OR_RAISE(layout.type, tensor_type(layout.number, {layout.width}));
    for (int column = 0; column < input.num_fields(); ++column) {
      const bool stays = std::ranges::find(layout.columns, column) == layout.columns.end();
      if (stays && input.field(column)->name() != options_.output) layout.others.push_back(column);
    }
    return layout;
  }

  arrow::Result<Column> arrays_of(const arrow::RecordBatch& block, const Layout& layout) const {
    const int64_t rows = block.num_rows();
    const int64_t bytes = layout.number->byte_width();
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
                          arrow::AllocateBuffer(rows * layout.width * bytes, reading_memory()));
    uint8_t* to = buffer->mutable_data();
    for (size_t i = 0; i < layout.columns.size(); ++i) {
      const auto values = numbers_of_column(block.column(layout.columns[i]), layout.number);
      if (!values.ok()) {
        return values.status().WithMessage(name(), ": the column '", options_.columns[i], "' ",
                                           values.status().message());
      }
      const arrow::ArrayData& data = *(*values)->data();
      const uint8_t* const from = data.buffers[1]->data() + data.offset * bytes;
      const auto copy = bytes == 1 ? scatter<1> : bytes == 2 ? scatter<2> : bytes == 4 ? scatter<4> : scatter<8>;
      if (rows > 0) copy(from, rows, layout.widths[i], to, layout.width);
      to += layout.widths[i] * bytes;
    }
    const auto numbers = arrow::ArrayData::Make(layout.number, rows * layout.width, {nullptr, std::move(buffer)}, 0);
    return tensor_column(arrow::MakeArray(numbers), layout.type, rows);
  }

  // Without nulls.
  static arrow::Result<Column> numbers_of_column(const Column& column, const Type& type) {
    compute::ExecContext context(reading_memory());
    ARROW_ASSIGN_OR_RAISE(Column values, flat_values(column));
    if (values->type_id() == arrow::Type::BOOL && type->id() == arrow::Type::HALF_FLOAT) {  // which Arrow cannot cast
      ARROW_ASSIGN_OR_RAISE(values, compute::Cast(*values, arrow::uint8(), compute::CastOptions::Safe(), &context));
    }
    if (!arrow::is_floating(type->id())) {
      ARROW_RETURN_NOT_OK(refuse_nan(*values, *type, context));
      ARROW_RETURN_NOT_OK(refuse_overflow(values, *type, context));
    }
    ARROW_ASSIGN_OR_RAISE(Column cast, compute::Cast(*values, type, compute::CastOptions::Unsafe(), &context));
    ARROW_RETURN_NOT_OK(refuse_infinite(*values, *cast, context));
    if (cast->null_count() == 0) return cast;
    const arrow::Datum nan(std::numeric_limits<double>::quiet_NaN());  // a Scalar's own cast makes 0 of it in float16
    ARROW_ASSIGN_OR_RAISE(const arrow::Datum of_type, compute::Cast(nan, type, compute::CastOptions::Safe(), &context));
    ARROW_ASSIGN_OR_RAISE(const arrow::Datum filled, compute::CallFunction("coalesce", {cast, of_type}, &context));
    return filled.make_array();
  }

  // Integers have no NaN: a cast would make some number of it.
  static arrow::Status refuse_nan(const arrow::Array& values, const arrow::DataType& type,
                                  compute::ExecContext& context) {
    bool are_finite = values.null_count() == 0;
    if (are_finite && arrow::is_floating(values.type_id())) {
      ARROW_ASSIGN_OR_RAISE(const Column doubles,
                            compute::Cast(values, arrow::float64(), compute::CastOptions::Safe(), &context));
      ARROW_ASSIGN_OR_RAISE(const arrow::Datum finite, compute::CallFunction("is_finite", {doubles}, &context));
      are_finite = finite.array_as<arrow::BooleanArray>()->false_count() == 0;
    }
    if (are_finite) return arrow::Status::OK();
    return arrow::Status::Invalid("has nulls, NaN or infinite numbers, which ", type.ToString(),
                                  " has not; fill them first, as with SimpleImputer, or filter them, or take a dtype "
                                  "of floating-point numbers");
  }

  // A cast that cuts fractions off does not look whether what is left fits.
  static arrow::Status refuse_overflow(const Column& values, const arrow::DataType& type,
                                       compute::ExecContext& context) {
    const bool is_floating = arrow::is_floating(values->type_id());
    const bool is_signed = arrow::is_signed_integer(values->type_id());
    ARROW_ASSIGN_OR_RAISE(const Column wide, compute::Cast(*values,
                                                           is_floating ? arrow::float64()
                                                           : is_signed ? arrow::int64()
                                                                       : arrow::uint64(),
                                                           compute::CastOptions::Safe(), &context));
    ARROW_ASSIGN_OR_RAISE(const arrow::Datum found,
                          compute::MinMax(wide, compute::ScalarAggregateOptions::Defaults(), &context));
    const auto& extremes = found.scalar_as<arrow::StructScalar>().value;
    const Range range = range_of(type);
    if (std::ranges::all_of(extremes, [&](const auto& extreme) { return fits(*extreme, range); })) {
      return arrow::Status::OK();
    }
    return arrow::Status::Invalid("has numbers from ", extremes[0]->ToString(), " to ", extremes[1]->ToString(),
                                  ", which ", type.ToString(),
                                  " does not hold: take a wider dtype, or one of "
                                  "floating-point numbers");
  }

  // A cast to floating-point numbers makes infinite ones of those that are too large.
  static arrow::Status refuse_infinite(const arrow::Array& values, const arrow::Array& cast,
                                       compute::ExecContext& context) {
    const arrow::Type::type to = cast.type_id();
    const bool may_become =
        to == arrow::Type::HALF_FLOAT || (to == arrow::Type::FLOAT && values.type_id() == arrow::Type::DOUBLE);
    if (!may_become || values.type_id() == to) return arrow::Status::OK();
    const auto is_finite = [&context](const arrow::Array& numbers) -> arrow::Result<arrow::Datum> {
      ARROW_ASSIGN_OR_RAISE(const Column doubles,
                            compute::Cast(numbers, arrow::float64(), compute::CastOptions::Unsafe(), &context));
      return compute::CallFunction("is_finite", {doubles}, &context);
    };
    ARROW_ASSIGN_OR_RAISE(const arrow::Datum before, is_finite(values));
    ARROW_ASSIGN_OR_RAISE(const arrow::Datum behind, is_finite(cast));
    ARROW_ASSIGN_OR_RAISE(const arrow::Datum lost, compute::CallFunction("and_not", {before, behind}, &context));
    const auto made = lost.make_array();
    const auto& rows = static_cast<const arrow::BooleanArray&>(*made);
    for (int64_t row = 0; row < (rows.true_count() > 0 ? rows.length() : 0); ++row) {
      if (rows.IsNull(row) || !rows.Value(row)) continue;
      ARROW_ASSIGN_OR_RAISE(const auto number, values.GetScalar(row));
      return arrow::Status::Invalid("has ", number->ToString(), ", which ", cast.type()->ToString(),
                                    " does not hold: take a wider dtype");
    }
    return arrow::Status::OK();
  }

  const ConcatenateOptions options_;
};

}  // namespace

std::shared_ptr<const Operator> concatenate_columns(ConcatenateOptions options) {
  return std::make_shared<ConcatenateColumns>(std::move(options));
}

}  // namespace paceline::data
