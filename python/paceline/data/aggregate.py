"""Aggregates: what Dataset.aggregate() computes of all rows, in one pass.

An aggregate makes an accumulator of each block (a pyarrow.Table) and merges these in the order of the rows. Nothing else
is held in memory; of AsList, Quantile, Unique and ValueCounter the accumulators hold values.

Results are the same for every cut of the rows into blocks; those of floating-point numbers but for how sums are rounded.
Integers and decimals are summed exactly, whatever their type: a sum of integers is an int of Python, which has no end.
NaN is a value, not a null: sums, means and standard deviations with one are NaN. Min, Max, AbsMax, Quantile and
ApproximateQuantile pass over it, as Arrow does, and are NaN where there is nothing else. Unique, CountDistinct and
ValueCounter take all NaN for one value.
"""

import decimal
import math
from typing import Any, Callable, Dict, Iterable, List, Optional

import pyarrow
import pyarrow.compute

from paceline import _absent
from paceline.data._aggregation import AggregateFn, AggregateFnV2, OfColumn
from paceline.data._deviations import Deviations
from paceline.data._exact import added, in_one_type, key_of, mean_of, sum_of, with_one_nan
from paceline.data._quantiles import QuantileSketch

__all__ = [
    "AbsMax",
    "AggregateFn",
    "AggregateFnV2",
    "ApproximateQuantile",
    "AsList",
    "Count",
    "CountDistinct",
    "Max",
    "Mean",
    "Min",
    "MissingValuePercentage",
    "Quantile",
    "Std",
    "Sum",
    "Unique",
    "ValueCounter",
    "ZeroPercentage",
]


class Count(AggregateFnV2):
    """The number of rows, or with ignore_nulls=True of values of a column."""

    _is_known_of_no_rows = True

    def __init__(self, on: Optional[str] = None, ignore_nulls: bool = False, alias_name: Optional[str] = None):
        super().__init__(alias_name or f"count({on or ''})", lambda: 0, on=on, ignore_nulls=ignore_nulls)

    def aggregate_block(self, block: pyarrow.Table) -> int:
        nulls = block.column(self._column).null_count if self._column and self._ignore_nulls else 0
        return block.num_rows - nulls

    def combine(self, current_accumulator: int, new: int) -> int:
        return current_accumulator + new


class Sum(OfColumn):
    """The sum of a column, which is exact for integers and decimals."""

    _kind = "sum"

    def __init__(self, on: Optional[str] = None, ignore_nulls: bool = True, alias_name: Optional[str] = None):
        super().__init__(on, ignore_nulls, alias_name, lambda: 0)

    def aggregate_block(self, block: pyarrow.Table) -> Any:
        values = self._values(block)
        return None if values is None else sum_of(values)

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        return added(current_accumulator, new)


class _Extreme(OfColumn):
    def __init__(self, on, ignore_nulls, alias_name, zero_factory):
        super().__init__(on, ignore_nulls, alias_name, lambda: _OfNoRows(zero_factory()))

    def aggregate_block(self, block):
        values = self._values(block)
        return None if values is None else self._of(pyarrow.compute.min_max(in_one_type(values)))

    def combine(self, current_accumulator, new):
        # NaN would stay where it comes first, or be lost where it comes second and there is nothing else.
        if isinstance(current_accumulator, _OfNoRows) or current_accumulator != current_accumulator:
            return new
        return current_accumulator if new != new else self._better(current_accumulator, new)

    def finalize(self, accumulator):
        return accumulator.value if isinstance(accumulator, _OfNoRows) else accumulator


class _OfNoRows:
    """The extreme before there are rows, which no value is compared with."""

    def __init__(self, value):
        self.value = value


class Min(_Extreme):
    """The smallest value of a column."""

    _kind, _better = "min", staticmethod(min)

    def __init__(self, on: Optional[str] = None, ignore_nulls: bool = True, alias_name: Optional[str] = None,
                 zero_factory: Callable[[], Any] = lambda: math.inf):
        super().__init__(on, ignore_nulls, alias_name, zero_factory)

    @staticmethod
    def _of(extremes):
        return extremes["min"].as_py()


class Max(_Extreme):
    """The largest value of a column."""

    _kind, _better = "max", staticmethod(max)

    def __init__(self, on: Optional[str] = None, ignore_nulls: bool = True, alias_name: Optional[str] = None,
                 zero_factory: Callable[[], Any] = lambda: -math.inf):
        super().__init__(on, ignore_nulls, alias_name, zero_factory)

    @staticmethod
    def _of(extremes):
        return extremes["max"].as_py()


class AbsMax(_Extreme):
    """The largest absolute value of a column."""

    _kind, _better = "abs_max", staticmethod(max)

    def __init__(self, on: Optional[str] = None, ignore_nulls: bool = True, alias_name: Optional[str] = None,
                 zero_factory: Callable[[], Any] = lambda: 0):
        if not isinstance(on, str):
            raise ValueError(f"AbsMax needs a column; on is {on!r}")
        super().__init__(on, ignore_nulls, alias_name, zero_factory)

    @staticmethod
    def _of(extremes):
        return max(_size(extremes["min"].as_py()), _size(extremes["max"].as_py()))


def _size(value):
    return value.copy_abs() if isinstance(value, decimal.Decimal) else abs(value)  # abs() rounds to 28 digits


class Mean(OfColumn):
    """The mean of a column."""

    _kind = "mean"

    def __init__(self, on: Optional[str] = None, ignore_nulls: bool = True, alias_name: Optional[str] = None):
        super().__init__(on, ignore_nulls, alias_name, lambda: [0, 0])

    def aggregate_block(self, block: pyarrow.Table) -> Any:
        values = self._values(block)
        return None if values is None else [sum_of(values), len(values)]

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        return [added(current_accumulator[0], new[0]), current_accumulator[1] + new[1]]

    def finalize(self, accumulator: Any) -> Any:
        return mean_of(*accumulator) if accumulator[1] else math.nan


class Std(OfColumn):
    """The standard deviation of a column, with ``rows - ddof`` in the denominator. That of integers is exact until its last
    step; of others squares of deviations are merged block by block (Chan and others, 1979)."""

    _kind = "std"

    def __init__(self, on: Optional[str] = None, ddof: int = 1, ignore_nulls: bool = True, alias_name: Optional[str] = None):
        super().__init__(on, ignore_nulls, alias_name, Deviations)
        self._ddof = ddof

    def aggregate_block(self, block: pyarrow.Table) -> Any:
        values = self._values(block)
        if values is None:
            return None
        self._refuse_what_is_no_number(values.type)
        return Deviations.of(values)

    def combine(self, current_accumulator: Deviations, new: Deviations) -> Deviations:
        return current_accumulator.merged(new)

    def finalize(self, accumulator: Deviations) -> Any:
        return accumulator.std(self._ddof)


class _Listed(OfColumn):
    """One whose accumulator is a list of arrays of values."""

    def aggregate_block(self, block):
        column = block.column(self._column).combine_chunks()
        return [column.drop_null() if self._ignore_nulls else column]

    def combine(self, current_accumulator, new):
        current_accumulator.extend(new)
        return current_accumulator


class AsList(_Listed):
    """The values of a column, as a list."""

    _kind, _is_known_of_no_rows = "list", True

    def __init__(self, on: str, alias_name: Optional[str] = None, ignore_nulls: bool = False):
        super().__init__(on, ignore_nulls, alias_name, list)

    def finalize(self, accumulator: Any) -> List[Any]:
        return [value for values in accumulator for value in values.to_pylist()]


class Quantile(_Listed):
    """The value below which a part of a column is, exactly, between two values where it lies there."""

    _kind = "quantile"

    def __init__(self, on: Optional[str] = None, q: float = 0.5, ignore_nulls: bool = True, alias_name: Optional[str] = None):
        super().__init__(on, ignore_nulls, alias_name, list)
        self._q = q

    def finalize(self, accumulator: Any) -> Any:
        values = pyarrow.concat_arrays(accumulator) if accumulator else pyarrow.nulls(0)
        if not len(values) or values.null_count:
            return None
        found = pyarrow.compute.quantile(in_one_type(values), q=self._q)[0].as_py()
        return math.nan if found is None else found  # there was nothing but NaN


class ApproximateQuantile(OfColumn):
    """Values below which parts of a column are, of a sketch that holds a few thousand values of it. Exact for fewer rows.

    Args:
        on: The column.
        quantiles: The parts, from 0 to 1.
        quantile_precision: Values of each level of the sketch; twice as many halve its error, about 1/quantile_precision.
    """

    _kind = "approx_quantile"

    def __init__(self, on: str, quantiles: List[float], quantile_precision: int = 800, alias_name: Optional[str] = None):
        super().__init__(on, True, alias_name, lambda: QuantileSketch(quantile_precision))
        self._quantiles, self._precision = list(quantiles), quantile_precision

    def aggregate_block(self, block: pyarrow.Table) -> Any:
        values = self._values(block)
        if values is None:
            return None
        self._refuse_what_is_no_number(values.type)
        numbers = values.cast(pyarrow.float64(), safe=False).to_numpy()
        return QuantileSketch(self._precision, numbers[numbers == numbers])

    def combine(self, current_accumulator: QuantileSketch, new: QuantileSketch) -> QuantileSketch:
        return current_accumulator.merged(new)

    def finalize(self, accumulator: QuantileSketch) -> List[float]:
        return accumulator.quantiles(self._quantiles) or [math.nan] * len(self._quantiles)


class Unique(OfColumn):
    """The values of a column, each once, in the order in which they come. Lists count by what is in them with
    encode_lists=True, otherwise as wholes, which come as tuples."""

    _kind, _is_known_of_no_rows = "unique", True

    def __init__(self, on: Optional[str] = None, ignore_nulls: bool = False, alias_name: Optional[str] = None,
                 encode_lists: Optional[bool] = None):
        super().__init__(on, ignore_nulls, alias_name, dict)
        self._encode_lists = encode_lists

    def aggregate_block(self, block: pyarrow.Table) -> Dict[Any, Any]:
        column = block.column(self._column).combine_chunks()
        if pyarrow.types.is_nested(column.type):
            values: Iterable[Any] = column.to_pylist()
            if self._encode_lists:
                values = (value for row in values for value in (row if isinstance(row, list) else [row]))
        else:
            values = column.unique().to_pylist()
        found: Dict[Any, Any] = {}
        for value in values:
            if value is not None or not self._ignore_nulls:
                found.setdefault(key_of(value), value)
        return found

    def combine(self, current_accumulator: Dict[Any, Any], new: Dict[Any, Any]) -> Dict[Any, Any]:
        for key, value in new.items():
            current_accumulator.setdefault(key, value)
        return current_accumulator

    def finalize(self, accumulator: Dict[Any, Any]) -> Any:
        return [_as_given(value) for value in accumulator.values()]


def _as_given(value):
    return tuple(map(_as_given, value)) if isinstance(value, (list, tuple)) else with_one_nan(value)


class CountDistinct(Unique):
    """How many values a column has."""

    _kind = "count_distinct"

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: Optional[str] = None):
        super().__init__(on, ignore_nulls, alias_name)

    def finalize(self, accumulator: Dict[Any, Any]) -> int:
        return len(accumulator)


class ValueCounter(OfColumn):
    """The values of a column, and how often each comes: ``{"values": […], "counts": […]}``."""

    _kind, _is_known_of_no_rows = "value_counter", True

    def __init__(self, on: str, alias_name: Optional[str] = None):
        super().__init__(on, True, alias_name, dict)

    def aggregate_block(self, block: pyarrow.Table) -> Dict[Any, Any]:
        column = block.column(self._column).combine_chunks()
        if pyarrow.types.is_nested(column.type):
            values, counts = column.to_pylist(), [1] * len(column)
        else:
            values, counts = (part.to_pylist() for part in column.value_counts().flatten())
        found: Dict[Any, Any] = {}
        for value, count in zip(values, counts):
            key = key_of(value)
            first, before = found.get(key, (value, 0))
            found[key] = (first, before + count)  # Arrow has 0.0 and -0.0, which are equal
        return found

    def combine(self, current_accumulator: Dict[Any, Any], new_accumulator: Dict[Any, Any]) -> Dict[Any, Any]:  # type: ignore[override]
        for key, (value, count) in new_accumulator.items():
            first, before = current_accumulator.get(key, (value, 0))
            current_accumulator[key] = (first, before + count)
        return current_accumulator

    def finalize(self, accumulator: Dict[Any, Any]) -> Dict[str, List[Any]]:
        return {"values": [_as_given(value) for value, _ in accumulator.values()],
                "counts": [count for _, count in accumulator.values()]}


class _Percentage(OfColumn):
    def combine(self, current_accumulator, new):
        return [current_accumulator[0] + new[0], current_accumulator[1] + new[1]]

    def finalize(self, accumulator):
        return 100.0 * accumulator[0] / accumulator[1] if accumulator[1] else None


class MissingValuePercentage(_Percentage):
    """How many of 100 values of a column are null or NaN."""

    _kind = "missing_pct"

    def __init__(self, on: str, alias_name: Optional[str] = None):
        super().__init__(on, False, alias_name, lambda: [0, 0])

    def aggregate_block(self, block: pyarrow.Table) -> List[int]:
        missing = pyarrow.compute.is_null(block.column(self._column), nan_is_null=True)
        return [pyarrow.compute.sum(missing).as_py() or 0, block.num_rows]


class ZeroPercentage(_Percentage):
    """How many of 100 values of a column are 0."""

    _kind = "zero_pct"

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: Optional[str] = None):
        super().__init__(on, ignore_nulls, alias_name, lambda: [0, 0])

    def aggregate_block(self, block: pyarrow.Table) -> List[int]:
        column = block.column(self._column)
        if pyarrow.types.is_dictionary(column.type):  # which may have nulls among its words
            column = column.cast(column.type.value_type)
        rows = block.num_rows - (column.null_count if self._ignore_nulls else 0)
        if pyarrow.types.is_null(column.type):
            return [0, rows]
        self._refuse_what_is_no_number(column.type)
        column = in_one_type(column)
        # Of the column's own type: Arrow has none for both an int64 and uint64 or truth values.
        zero = pyarrow.scalar(False if pyarrow.types.is_boolean(column.type) else 0, column.type)
        return [pyarrow.compute.sum(pyarrow.compute.equal(column, zero)).as_py() or 0, rows]


_absent.explain(__name__)
