#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/compute/cast.h>
#include <arrow/type.h>
#include <arrow/util/decimal.h>

#include <bit>
#include <cmath>
#include <optional>

#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/operator/exact_numbers_internal.h"

namespace paceline::data {
namespace {

namespace compute = arrow::compute;

using Column = std::shared_ptr<arrow::Array>;
using Type = std::shared_ptr<arrow::DataType>;
using Digits = arrow::BasicDecimal256;

constexpr int32_t kMostDigits = Digits::kMaxPrecision;
constexpr int kBitsOfDouble = 53;

// digits / 10^scale. All integers and decimals are such, and the doubles that one of them may be equal to.
struct Exact {
  Digits digits;
  int32_t scale = 0;
};

Digits power_of_five(int32_t exponent) {
  Digits power(1);
  for (; exponent > 0; --exponent) power *= Digits(5);
  return power;
}

std::optional<Exact> exact_of(double number) {
  if (!(std::fabs(number) < 1e76)) return std::nullopt;
  if (number == 0) return Exact();
  int exponent = 0;
  auto bits = static_cast<int64_t>(std::ldexp(std::frexp(number, &exponent), kBitsOfDouble));
  const int zeros = std::countr_zero(static_cast<uint64_t>(bits));
  bits /= int64_t{1} << zeros;
  exponent += zeros - kBitsOfDouble;
  // Now the number is bits * 2^exponent, and bits is odd: 1 / 2^n has n digits behind the point, which are those of
  // 5^n.
  if (exponent < -kMostDigits) return std::nullopt;
  Digits digits(bits);
  if (exponent < 0) return Exact{digits *= power_of_five(-exponent), -exponent};
  digits *= Digits(1) << static_cast<uint32_t>(exponent);
  return Exact{digits};
}

std::optional<Exact> exact_at(const arrow::Array& numbers, int64_t row) {
  if (numbers.IsNull(row)) return std::nullopt;
  switch (numbers.type_id()) {
    case arrow::Type::INT64:
      return Exact{Digits(static_cast<const arrow::Int64Array&>(numbers).Value(row))};
    case arrow::Type::UINT64:
      return Exact{Digits(static_cast<const arrow::UInt64Array&>(numbers).Value(row))};
    case arrow::Type::DOUBLE:
      return exact_of(static_cast<const arrow::DoubleArray&>(numbers).Value(row));
    default: {
      const auto& decimals = static_cast<const arrow::Decimal256Array&>(numbers);
      const auto& type = static_cast<const arrow::DecimalType&>(*numbers.type());
      return Exact{arrow::Decimal256(decimals.GetValue(row)), type.scale()};
    }
  }
}

// Its digits at another scale.
std::optional<Digits> digits_at(const Exact& number, int32_t scale) {
  if (number.digits == Digits(0)) return number.digits;
  const int32_t more = scale - number.scale;
  if (more >= kMostDigits || more < -kMostDigits) return std::nullopt;
  if (more >= 0) {
    if (!number.digits.FitsInPrecision(kMostDigits - more)) return std::nullopt;
    Digits digits = number.digits;
    return digits *= Digits::GetScaleMultiplier(more);
  }
  Digits digits;
  Digits rest;
  number.digits.Divide(Digits::GetScaleMultiplier(-more), &digits, &rest);
  return rest == Digits(0) ? std::optional(digits) : std::nullopt;
}

template <typename Integer>
std::optional<Integer> integer_of(const Exact& number) {
  const std::optional<Digits> digits = digits_at(number, 0);
  if (!digits) return std::nullopt;
  const auto integer = static_cast<Integer>(digits->low_bits());
  return Digits(integer) == *digits ? std::optional(integer) : std::nullopt;
}

std::optional<double> double_of(const Exact& number) {
  const int32_t behind_point = std::max(number.scale, 0);
  Digits whole;  // the number times 2^behind_point, which a double is an integer of
  Digits rest;
  const std::optional<Digits> digits = digits_at(number, behind_point);
  if (!digits) return std::nullopt;
  digits->Divide(power_of_five(behind_point), &whole, &rest);
  if (rest != Digits(0)) return std::nullopt;
  const double found = std::ldexp(arrow::Decimal256(whole).ToDouble(0), -behind_point);
  const std::optional<Exact> exact = exact_of(found);
  if (!exact || digits_at(*exact, behind_point) != digits) return std::nullopt;
  return found;
}

template <typename Builder, typename Convert>
arrow::Result<Column> held_values(const arrow::Array& numbers, Builder builder, const Convert& convert) {
  ARROW_RETURN_NOT_OK(builder.Reserve(numbers.length()));
  for (int64_t row = 0; row < numbers.length(); ++row) {
    const std::optional<Exact> exact = exact_at(numbers, row);
    const auto value = exact ? convert(*exact) : std::nullopt;
    value ? builder.UnsafeAppend(*value) : builder.UnsafeAppendNull();
  }
  return builder.Finish();
}

arrow::Result<Type> wide_type(const arrow::DataType& type) {
  if (type.id() == arrow::Type::UINT64) return arrow::uint64();
  if (arrow::is_integer(type.id()) || type.id() == arrow::Type::BOOL) return arrow::int64();
  if (arrow::is_floating(type.id())) return arrow::float64();
  if (!arrow::is_decimal(type.id())) return arrow::Status::Invalid(type.ToString(), " has no numbers");
  return arrow::Decimal256Type::Make(kMostDigits, static_cast<const arrow::DecimalType&>(type).scale());
}

}  // namespace

bool holds_numbers(const arrow::DataType& type) {
  const arrow::Type::type id = type.id();
  return arrow::is_numeric(id) || arrow::is_decimal(id) || id == arrow::Type::BOOL || id == arrow::Type::NA;
}

arrow::Result<Column> in_wide_type(Column numbers) {
  compute::ExecContext context(reading_memory());
  const auto cast = [&context](const Column& column, const Type& type) {
    return compute::Cast(*column, type, compute::CastOptions::Safe(), &context);
  };
  if (numbers->type_id() == arrow::Type::DICTIONARY) {
    ARROW_ASSIGN_OR_RAISE(numbers,
                          cast(numbers, static_cast<const arrow::DictionaryType&>(*numbers->type()).value_type()));
  }
  ARROW_ASSIGN_OR_RAISE(const Type type, wide_type(*numbers->type()));
  if (numbers->type()->Equals(*type)) return numbers;
  return cast(numbers, type);
}

arrow::Result<Column> held_exactly(const Column& numbers, const Type& type) {
  if (numbers->type()->Equals(*type)) return numbers;
  arrow::MemoryPool* const pool = reading_memory();
  switch (type->id()) {
    case arrow::Type::INT64:
      return held_values(*numbers, arrow::Int64Builder(pool), integer_of<int64_t>);
    case arrow::Type::UINT64:
      return held_values(*numbers, arrow::UInt64Builder(pool), integer_of<uint64_t>);
    case arrow::Type::DOUBLE:
      return held_values(*numbers, arrow::DoubleBuilder(pool), double_of);
    default:
      break;
  }
  const int32_t scale = static_cast<const arrow::DecimalType&>(*type).scale();
  return held_values(*numbers, arrow::Decimal256Builder(type, pool), [scale](const Exact& number) {
    const std::optional<Digits> digits = digits_at(number, scale);
    return digits ? std::optional(arrow::Decimal256(*digits)) : std::nullopt;
  });
}

}  // namespace paceline::data
