"""Sums that no type of Arrow holds, and NaN as a value that equals itself: what aggregates need so that the cut of the rows
into blocks does not change them."""

import decimal
import math
from typing import Any

import numpy
import pyarrow
import pyarrow.compute

_DIGITS = decimal.Context(prec=160)  # a decimal256 has 76
_DIGITS_BEHIND = 28  # of a quotient: so many more than its dividend has, as it may never end


def sum_of(values: pyarrow.Array) -> Any:
    """Of numbers without nulls, of which there is at least one."""
    kind = values.type
    if pyarrow.types.is_int64(kind) or pyarrow.types.is_uint64(kind):
        return _of_wide_integers(values)
    if pyarrow.types.is_decimal(kind):
        values = values.cast(pyarrow.decimal256(76, kind.scale))  # Arrow's sums have the digits of their type, and wrap
    return pyarrow.compute.sum(in_one_type(values)).as_py()


def _of_wide_integers(values):
    """Arrow's sums of 64-bit integers wrap: where these could, the halves of the numbers are summed apart."""
    extremes = pyarrow.compute.min_max(values)
    if max(-extremes["min"].as_py(), extremes["max"].as_py()) * len(values) < 2**63:
        return pyarrow.compute.sum(values).as_py()
    high = pyarrow.compute.shift_right(values, pyarrow.scalar(32, values.type))
    low = pyarrow.compute.bit_wise_and(values, pyarrow.scalar(2**32 - 1, values.type))
    return (pyarrow.compute.sum(high).as_py() << 32) + pyarrow.compute.sum(low).as_py()


def squares_of(values: pyarrow.Array) -> int:
    """The sum of the squares of integers without nulls, of which there is at least one."""
    extremes = pyarrow.compute.min_max(values)
    least, greatest = extremes["min"].as_py(), extremes["max"].as_py()
    numbers = values.to_numpy(zero_copy_only=False)
    above = numbers.astype(numpy.uint64) - numpy.uint64(least % 2**64)  # modulo 2**64, which holds every distance
    squares = _squares(above, greatest - least)
    return squares + 2 * least * _total(above, greatest - least) + len(numbers) * least * least


def _squares(numbers, greatest):
    if greatest < 2**32:
        return _total(numbers * numbers, greatest * greatest)
    high, low = numbers >> numpy.uint64(32), numbers & numpy.uint64(2**32 - 1)
    return (_total(high * high) << 64) + (_total(high * low) << 33) + _total(low * low)


def _total(numbers, greatest=2**64 - 1):
    """Exact, of a uint64 array of fewer than 2**32 numbers."""
    if greatest * len(numbers) < 2**64:
        return int(numbers.sum())
    return (int((numbers >> numpy.uint64(32)).sum()) << 32) + int((numbers & numpy.uint64(2**32 - 1)).sum())


def added(first: Any, second: Any) -> Any:
    """Two sums. Python rounds decimals to 28 digits unless it is told otherwise."""
    both = isinstance(first, decimal.Decimal) and isinstance(second, decimal.Decimal)
    return _DIGITS.add(first, second) if both else first + second


def mean_of(total: Any, count: int) -> Any:
    """A sum divided by a number of values."""
    if not isinstance(total, decimal.Decimal):
        return total / count
    return decimal.Context(prec=len(total.as_tuple().digits) + _DIGITS_BEHIND).divide(total, decimal.Decimal(count))


def in_one_type(values: pyarrow.Array) -> pyarrow.Array:
    """Half-precision numbers as doubles: Arrow has few functions for them."""
    return values.cast(pyarrow.float64()) if pyarrow.types.is_float16(values.type) else values


def with_one_nan(value: Any) -> Any:
    """The value, with the same object for every NaN: only that is equal to itself in a dict, also within a tuple."""
    if isinstance(value, tuple):
        return tuple(map(with_one_nan, value))
    return math.nan if isinstance(value, float) and value != value else value


class StructKey(tuple):
    """The key of a struct: pairs of a name and a key."""


def key_of(value: Any) -> Any:
    """What equal values of one column have in common and a dict takes for a key, also of lists, arrays and structs."""
    if isinstance(value, dict):
        return StructKey((name, key_of(part)) for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(key_of, value))
    if isinstance(value, numpy.ndarray):
        return tuple(map(key_of, value.tolist()))
    return with_one_nan(value)


def value_of(key: Any) -> Any:
    """The value that has this key."""
    if isinstance(key, StructKey):
        return {name: value_of(part) for name, part in key}
    return list(map(value_of, key)) if isinstance(key, tuple) else key
