#include "paceline/data/dataset/aggregate.h"

#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/builder.h>
#include <arrow/compute/api.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <arrow/util/decimal.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace paceline::data {
namespace {

namespace compute = arrow::compute;

using Values = std::shared_ptr<arrow::Array>;
using ScalarResult = arrow::Result<std::shared_ptr<arrow::Scalar>>;

template <class Kind, class... Arguments>
std::function<std::unique_ptr<Accumulator>()> begins(Arguments... arguments) {
  return [=] { return std::make_unique<Kind>(arguments...); };
}

std::string named(const char* kind, const std::string& column) {
  return kind + ("(" + column + ")");
}

// Arrow has few functions for half-precision numbers.
arrow::Result<Values> in_one_type(const Values& values) {
  if (values->type_id() != arrow::Type::HALF_FLOAT) return values;
  return compute::Cast(*values, arrow::float64());
}

class Counting : public Accumulator {
 public:
  explicit Counting(bool ignore_nulls) : ignore_nulls_(ignore_nulls) {}
  arrow::Status add(const Values& values) override {
    rows_ += values->length() - (ignore_nulls_ ? values->null_count() : 0);
    return arrow::Status::OK();
  }
  ScalarResult result() const override { return std::make_shared<arrow::Int64Scalar>(rows_); }

 private:
  const bool ignore_nulls_;
  int64_t rows_ = 0;
};

// The sum of integers, which no block makes too large.
template <class Type>
__int128 sum_of_integers(const arrow::Array& values) {
  const auto& numbers = static_cast<const typename arrow::TypeTraits<Type>::ArrayType&>(values);
  __int128 sum = 0;
  for (int64_t row = 0; row < numbers.length(); ++row) sum += numbers.IsValid(row) ? numbers.Value(row) : 0;
  return sum;
}

template <class Type>
ScalarResult integer_scalar(__int128 sum) {
  using Number = typename Type::c_type;
  if (sum < std::numeric_limits<Number>::min() || sum > std::numeric_limits<Number>::max()) {
    return arrow::Status::Invalid("overflow: the sum is too large for ",
                                  arrow::TypeTraits<Type>::type_singleton()->ToString());
  }
  return std::make_shared<typename arrow::TypeTraits<Type>::ScalarType>(static_cast<Number>(sum));
}

class Summing : public Accumulator {
 public:
  arrow::Status add(const Values& given) override {
    ARROW_ASSIGN_OR_RAISE(const Values values, in_one_type(given));
    if (arrow::is_integer(values->type_id())) return add_integers(*values);
    if (arrow::is_decimal(values->type_id())) return add_decimals(*values);
    ARROW_ASSIGN_OR_RAISE(const arrow::Datum some, compute::Sum(values));
    const bool has_values = sum_ != nullptr && sum_->is_valid;
    if (has_values && !some.scalar()->is_valid) return arrow::Status::OK();
    if (!has_values) {
      sum_ = some.scalar();
      return arrow::Status::OK();
    }
    const compute::ArithmeticOptions checked(/*check_overflow=*/true);
    ARROW_ASSIGN_OR_RAISE(const arrow::Datum both, compute::Add(sum_, some, checked));
    sum_ = both.scalar();
    return arrow::Status::OK();
  }

  ScalarResult result() const override {
    if (sum_ != nullptr) return sum_;
    if (decimal_type_ != nullptr) return decimal_scalar();
    if (!has_integers_) return arrow::MakeNullScalar(is_signed_ ? arrow::int64() : arrow::uint64());
    return is_signed_ ? integer_scalar<arrow::Int64Type>(integers_) : integer_scalar<arrow::UInt64Type>(integers_);
  }

 private:
  arrow::Status add_integers(const arrow::Array& values) {
    is_signed_ = arrow::is_signed_integer(values.type_id());
    has_integers_ = has_integers_ || values.null_count() < values.length();
    ARROW_ASSIGN_OR_RAISE(const auto wide, compute::Cast(values, is_signed_ ? arrow::int64() : arrow::uint64()));
    integers_ += is_signed_ ? sum_of_integers<arrow::Int64Type>(*wide) : sum_of_integers<arrow::UInt64Type>(*wide);
    return arrow::Status::OK();
  }

  // Arrow's own sum may wrap around, and has one digit more with each block.
  arrow::Status add_decimals(const arrow::Array& values) {
    const int32_t scale = static_cast<const arrow::DecimalType&>(*values.type()).scale();
    const bool is_wide = values.type_id() == arrow::Type::DECIMAL256;
    ARROW_ASSIGN_OR_RAISE(decimal_type_,
                          is_wide ? arrow::Decimal256Type::Make(arrow::Decimal256Type::kMaxPrecision, scale)
                                  : arrow::Decimal128Type::Make(arrow::Decimal128Type::kMaxPrecision, scale));
    ARROW_ASSIGN_OR_RAISE(const auto widest, arrow::Decimal256Type::Make(arrow::Decimal256Type::kMaxPrecision, scale));
    ARROW_ASSIGN_OR_RAISE(const auto wide, compute::Cast(values, widest));
    const auto& numbers = static_cast<const arrow::Decimal256Array&>(*wide);
    for (int64_t row = 0; row < numbers.length(); ++row) {
      if (!numbers.IsValid(row)) continue;
      decimals_ += arrow::Decimal256(numbers.GetValue(row));
      has_decimals_ = true;
    }
    return arrow::Status::OK();
  }

  ScalarResult decimal_scalar() const {
    if (!has_decimals_) return arrow::MakeNullScalar(decimal_type_);
    const auto& type = static_cast<const arrow::DecimalType&>(*decimal_type_);
    if (!decimals_.FitsInPrecision(type.precision())) {
      return arrow::Status::Invalid("overflow: the sum is too large for ", type.ToString());
    }
    if (type.id() == arrow::Type::DECIMAL256)
      return std::make_shared<arrow::Decimal256Scalar>(decimals_, decimal_type_);
    const auto words = decimals_.little_endian_array();
    return std::make_shared<arrow::Decimal128Scalar>(arrow::Decimal128(static_cast<int64_t>(words[1]), words[0]),
                                                     decimal_type_);
  }

  std::shared_ptr<arrow::Scalar> sum_;  // of what is neither integer nor decimal
  std::shared_ptr<arrow::DataType> decimal_type_;
  arrow::Decimal256 decimals_;
  bool has_decimals_ = false;
  __int128 integers_ = 0;
  bool has_integers_ = false;
  bool is_signed_ = true;
};

enum class Extreme { least, greatest, absolute };

class ExtremeOf : public Accumulator {
 public:
  explicit ExtremeOf(Extreme which) : which_(which) {}

  arrow::Status add(const Values& given) override {
    ARROW_ASSIGN_OR_RAISE(Values values, in_one_type(given));
    if (which_ == Extreme::absolute && arrow::is_signed_integer(values->type_id())) return add_magnitudes(*values);
    if (which_ == Extreme::absolute && values->type_id() == arrow::Type::BOOL) {
      ARROW_ASSIGN_OR_RAISE(values, compute::Cast(*values, arrow::uint8()));
    }
    if (extreme_ != nullptr) {  // element-wise functions take fewer types than those of arrays
      ARROW_ASSIGN_OR_RAISE(const Values before, arrow::MakeArrayFromScalar(*extreme_, 1));
      ARROW_ASSIGN_OR_RAISE(values, arrow::Concatenate({before, values}));
    }
    ARROW_ASSIGN_OR_RAISE(const arrow::Datum both, compute::MinMax(values));
    const auto& extremes = both.scalar_as<arrow::StructScalar>().value;
    arrow::Datum some = extremes[which_ == Extreme::least ? 0 : 1];
    if (which_ == Extreme::absolute && values->type_id() != arrow::Type::NA) {
      const compute::ArithmeticOptions checked(/*check_overflow=*/true);
      ARROW_ASSIGN_OR_RAISE(const arrow::Datum low, compute::AbsoluteValue(extremes[0], checked));
      ARROW_ASSIGN_OR_RAISE(const arrow::Datum high, compute::AbsoluteValue(extremes[1], checked));
      ARROW_ASSIGN_OR_RAISE(some, compute::MaxElementWise({low, high}));
    }
    extreme_ = some.scalar();
    return arrow::Status::OK();
  }
  ScalarResult result() const override {
    if (!magnitude_) return extreme_;
    if (std::in_range<int64_t>(*magnitude_)) {
      return std::make_shared<arrow::Int64Scalar>(static_cast<int64_t>(*magnitude_));
    }
    return std::make_shared<arrow::UInt64Scalar>(*magnitude_);
  }

 private:
  // Of integers: an int8 has -128, but not 128.
  arrow::Status add_magnitudes(const arrow::Array& values) {
    extreme_ = arrow::MakeNullScalar(arrow::int64());
    ARROW_ASSIGN_OR_RAISE(const Values wide, compute::Cast(values, arrow::int64()));
    const auto& numbers = static_cast<const arrow::Int64Array&>(*wide);
    for (int64_t row = 0; row < numbers.length(); ++row) {
      if (numbers.IsNull(row)) continue;
      const auto number = static_cast<uint64_t>(numbers.Value(row));
      magnitude_ = std::max(magnitude_.value_or(0), numbers.Value(row) < 0 ? 0 - number : number);
    }
    return arrow::Status::OK();
  }

  const Extreme which_;
  std::shared_ptr<arrow::Scalar> extreme_;
  std::optional<uint64_t> magnitude_;  // of signed integers
};

arrow::Result<double> number_in(const arrow::Result<arrow::Datum>& value) {
  ARROW_RETURN_NOT_OK(value);
  ARROW_ASSIGN_OR_RAISE(const arrow::Datum number, compute::Cast(*value, arrow::float64()));
  return number.scalar_as<arrow::DoubleScalar>().value;
}

std::shared_ptr<arrow::Scalar> double_or_null(double value, bool is_valid) {
  if (is_valid) return std::make_shared<arrow::DoubleScalar>(value);
  return arrow::MakeNullScalar(arrow::float64());
}

// Rows, their mean and the sum of the squares of what they are off it; of blocks as of Chan and others, "Updating
// Formulae", 1979.
struct Spread {
  double rows = 0;
  double mean = 0;
  double squares = 0;

  void add(const Spread& other) {
    if (other.rows == 0) return;
    if (rows == 0) {  // exactly
      *this = other;
      return;
    }
    const double total = rows + other.rows;
    const double off = other.mean - mean;
    squares += other.squares + off * off * rows * other.rows / total;
    mean += off * other.rows / total;
    rows = total;
  }
};

// The same of integers, from exact sums: so it is rounded once, however they come in blocks.
class SpreadOfIntegers {
 public:
  template <class Type>
  void add(const arrow::Array& values) {
    const auto& numbers = static_cast<const typename arrow::TypeTraits<Type>::ArrayType&>(values);
    for (int64_t row = 0; row < numbers.length(); ++row) {
      if (!numbers.IsValid(row)) continue;
      const __int128 number = numbers.Value(row);
      const auto size = static_cast<unsigned __int128>(number < 0 ? -number : number);
      ++rows_;
      sum_ += number;
      squares_ += size * size;
      if (squares_ < size * size) ++carries_;
    }
  }

  Spread spread() const {
    if (rows_ == 0) return {};
    const auto rows = static_cast<double>(rows_);
    // rows * squares - sum * sum has up to 254 bits.
    const arrow::Decimal256 sum = wide(static_cast<unsigned __int128>(sum_ < 0 ? -sum_ : sum_), 0);
    arrow::Decimal256 off(arrow::Decimal256(rows_) * wide(squares_, carries_));
    off -= sum * sum;
    return {.rows = rows, .mean = static_cast<double>(sum_) / rows, .squares = off.ToDouble(0) / rows};
  }

 private:
  static arrow::Decimal256 wide(unsigned __int128 low, uint64_t high) {
    return arrow::Decimal256(arrow::Decimal256::LittleEndianArray,
                             {static_cast<uint64_t>(low), static_cast<uint64_t>(low >> 64), high, 0});
  }

  int64_t rows_ = 0;
  __int128 sum_ = 0;
  unsigned __int128 squares_ = 0;  // less what was carried
  uint64_t carries_ = 0;
};

// The mean or, with `ddof`, the standard deviation.
class Moments : public Accumulator {
 public:
  explicit Moments(std::optional<int64_t> ddof) : ddof_(ddof) {}

  arrow::Status add(const Values& given) override {
    const arrow::Type::type type = given->type_id();
    if (arrow::is_integer(type) || type == arrow::Type::BOOL) return add_integers(*given);
    Values values = given;
    if (arrow::is_floating(type) || arrow::is_decimal(type)) {
      ARROW_ASSIGN_OR_RAISE(values, compute::Cast(*given, arrow::float64(), compute::CastOptions::Unsafe()));
    }
    ARROW_ASSIGN_OR_RAISE(const arrow::Datum mean, compute::Mean(values));  // refuses texts, of no rows, too
    Spread block{.rows = static_cast<double>(values->length() - values->null_count())};
    if (block.rows == 0) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(block.mean, number_in(mean));
    if (ddof_) {
      ARROW_ASSIGN_OR_RAISE(const double variance, number_in(compute::Variance(values, compute::VarianceOptions(0))));
      block.squares = variance * block.rows;
    }
    numbers_.add(block);
    sum_ += block.mean * block.rows;
    return arrow::Status::OK();
  }

  ScalarResult result() const override {
    Spread all = integers_.spread();
    if (!ddof_ && all.rows == 0) return double_or_null(sum_ / numbers_.rows, numbers_.rows > 0);
    all.add(numbers_);
    if (!ddof_) return double_or_null(all.mean, all.rows > 0);
    const double rows = all.rows - static_cast<double>(*ddof_);
    return double_or_null(std::sqrt(all.squares / rows), all.rows > 0 && rows > 0);
  }

 private:
  arrow::Status add_integers(const arrow::Array& values) {
    const bool is_signed = arrow::is_signed_integer(values.type_id());
    ARROW_ASSIGN_OR_RAISE(const auto wide, compute::Cast(values, is_signed ? arrow::int64() : arrow::uint64()));
    is_signed ? integers_.add<arrow::Int64Type>(*wide) : integers_.add<arrow::UInt64Type>(*wide);
    return arrow::Status::OK();
  }

  const std::optional<int64_t> ddof_;
  Spread numbers_;  // that are no integers
  double sum_ = 0;  // of them, for a mean that is infinite where one of them is
  SpreadOfIntegers integers_;
};

// NaN has many bit patterns, which would be as many values, and zero has two.
arrow::Result<Values> with_one_nan_and_zero(const Values& given) {
  ARROW_ASSIGN_OR_RAISE(const Values values, in_one_type(given));
  if (!arrow::is_floating(values->type_id())) return values;
  ARROW_ASSIGN_OR_RAISE(const arrow::Datum is_nan, compute::IsNan(values));
  const arrow::DoubleScalar nan(std::numeric_limits<double>::quiet_NaN());
  ARROW_ASSIGN_OR_RAISE(const auto of_type, nan.CastTo(values->type()));
  ARROW_ASSIGN_OR_RAISE(const arrow::Datum made, compute::IfElse(is_nan, of_type, values));
  const arrow::DoubleScalar zero(0.0);
  ARROW_ASSIGN_OR_RAISE(const auto zero_of_type, zero.CastTo(values->type()));
  ARROW_ASSIGN_OR_RAISE(const arrow::Datum sum, compute::Add(made, zero_of_type));  // -0.0 becomes 0.0
  return sum.make_array();
}

class Distinct : public Accumulator {
 public:
  explicit Distinct(bool counts) : counts_values_(counts) {}

  arrow::Status add(const Values& given) override {
    ARROW_ASSIGN_OR_RAISE(Values values, with_one_nan_and_zero(given));
    if (counts_values_ && values->type_id() == arrow::Type::DICTIONARY) {  // of each block its own
      const auto& words = static_cast<const arrow::DictionaryType&>(*values->type()).value_type();
      ARROW_ASSIGN_OR_RAISE(values, compute::Cast(*values, words));
    }
    ARROW_ASSIGN_OR_RAISE(Values some, compute::Unique(values));
    if (values_ != nullptr) {
      ARROW_ASSIGN_OR_RAISE(some, arrow::Concatenate({values_, some}));
      ARROW_ASSIGN_OR_RAISE(some, compute::Unique(some));
    }
    values_ = std::move(some);
    if (!counts_values_) return arrow::Status::OK();
    counts_.resize(static_cast<size_t>(values_->length()));
    ARROW_ASSIGN_OR_RAISE(const arrow::Datum places, compute::IndexIn(values, compute::SetLookupOptions(values_)));
    const Values found = places.make_array();
    const auto& indices = static_cast<const arrow::Int32Array&>(*found);
    for (int64_t row = 0; row < indices.length(); ++row) ++counts_[static_cast<size_t>(indices.Value(row))];
    return arrow::Status::OK();
  }

  ScalarResult result() const override {
    const auto values = std::make_shared<arrow::ListScalar>(values_);
    if (!counts_values_) return values;
    arrow::Int64Builder counts;
    ARROW_RETURN_NOT_OK(counts.AppendValues(counts_));
    ARROW_ASSIGN_OR_RAISE(const Values array, counts.Finish());
    return arrow::StructScalar::Make({values, std::make_shared<arrow::ListScalar>(array)}, {"values", "counts"});
  }

 private:
  const bool counts_values_;
  Values values_;  // each once
  std::vector<int64_t> counts_;
};

}  // namespace

Count::Count() : Aggregate{"count()", std::nullopt, begins<Counting>(false)} {}
Count::Count(const std::string& on, bool ignore_nulls)
    : Aggregate{named("count", on), on, begins<Counting>(ignore_nulls)} {}
Sum::Sum(const std::string& on) : Aggregate{named("sum", on), on, begins<Summing>()} {}
Min::Min(const std::string& on) : Aggregate{named("min", on), on, begins<ExtremeOf>(Extreme::least)} {}
Max::Max(const std::string& on) : Aggregate{named("max", on), on, begins<ExtremeOf>(Extreme::greatest)} {}
AbsMax::AbsMax(const std::string& on) : Aggregate{named("abs_max", on), on, begins<ExtremeOf>(Extreme::absolute)} {}
Mean::Mean(const std::string& on) : Aggregate{named("mean", on), on, begins<Moments>(std::optional<int64_t>())} {}
Std::Std(const std::string& on, int64_t ddof)
    : Aggregate{named("std", on), on, begins<Moments>(std::optional<int64_t>(ddof))} {}
Unique::Unique(const std::string& on) : Aggregate{named("unique", on), on, begins<Distinct>(false)} {}
ValueCounter::ValueCounter(const std::string& on) : Aggregate{named("value_counter", on), on, begins<Distinct>(true)} {}

}  // namespace paceline::data
