"""Several columns as one of arrays."""

import contextlib
import decimal
import logging
import numbers
from typing import Any, List, Optional

import numpy
import pyarrow

from paceline.data import _blocks, _types
from paceline.data.preprocessors._columns import OfSome, frame_of_columns

_log = logging.getLogger(__name__)


def _arrays_of(values):
    """The numbers of a pandas.Series, which may be arrays itself."""
    if values.dtype != object:
        kind = "float64" if values.dtype.kind in "iu" and values.isna().any() else None
        return [values.to_numpy() if kind is None else values.to_numpy(dtype=kind, na_value=numpy.nan)]
    rows = [numpy.asarray(value) for value in values]  # columns of arrays, and of numbers as Python has them
    return [numpy.stack(rows)] if len({(row.shape, row.dtype) for row in rows}) == 1 else rows


def _with_times_as_numbers(values):
    """The pandas.Series with whole numbers for times and spans of time, also in arrays; NaT is NaN then."""
    import pandas

    if values.dtype == object:
        return values.map(lambda value: _of_times(value) if isinstance(value, numpy.ndarray) else value)
    if values.dtype.kind not in "mM":
        return values
    times = values.dt.tz_convert(None) if getattr(values.dtype, "tz", None) else values
    return pandas.Series(_of_times(times.to_numpy()), values.index, name=values.name)


def _of_times(array):
    if array.dtype.kind not in "mM":
        return array
    missing, whole = numpy.isnat(array), array.astype("int64")
    return numpy.where(missing, numpy.nan, whole) if missing.any() else whole


@contextlib.contextmanager
def _naming(column, dtype):
    """Errors of numpy say nothing of the column."""
    try:
        yield
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"the column {column!r} has values that cannot be {dtype}: {error}") from error


def _refuse_what_does_not_fit(values, dtype):
    """numpy would make the smallest integer of NaN, leave out the upper bits of large ones, and make infinity of large
    numbers."""
    import pandas

    for array in _arrays_of(values):
        is_float = array.dtype.kind == "f"
        if dtype.kind == "f":
            with _naming(values.name, dtype):
                extremes = _too_large(array, dtype)
        elif array.dtype == object and pandas.isna(array).any() or is_float and not numpy.isfinite(array).all():
            raise ValueError(
                f"the column {values.name!r} has nulls, NaN or infinite numbers, which {dtype} has "
                "not; fill them first, as with SimpleImputer, or filter them, or take a dtype of floating-point numbers"
            )
        else:
            extremes = _extremes(array) if dtype.kind in "iu" else []
        limits = numpy.finfo(dtype) if dtype.kind == "f" else numpy.iinfo(dtype) if dtype.kind in "iu" else None
        for one in extremes:
            if dtype.kind == "f" or not limits.min <= int(one) <= limits.max:
                raise ValueError(f"the column {values.name!r} has {one}, which {dtype} does not hold; it goes from "
                                 f"{limits.min} to {limits.max}; take a wider dtype")


def _too_large(array, dtype):
    """One of the numbers of which infinity would be made, if there is one."""
    if not array.size or array.dtype.kind == "f" and array.dtype.itemsize <= dtype.itemsize or array.dtype.kind == "b":
        return []
    doubles = array.astype("float64")
    with numpy.errstate(over="ignore"):
        lost = numpy.isinf(doubles.astype(dtype)) & numpy.isfinite(doubles)
    return array[lost][:1]


def _extremes(array):
    if not array.size or array.dtype.kind not in "iufO":
        return []
    if array.dtype == object and not all(isinstance(one, (numbers.Real, decimal.Decimal)) for one in array.flat):
        return []
    return [min(array.flat), max(array.flat)] if array.dtype == object else [array.min(), array.max()]


def _refuse_null_rows(column, values):
    """Of arrays: a row would be shorter. Also of those within arrays."""
    while _types.is_list(values.type):
        if values.null_count:
            _refuse_null_rows_of(column)
        values = values.flatten()


def _refuse_null_rows_of(column):
    raise ValueError(f"the column {column!r} has rows that are null, of which nobody knows how long they are; filter them")


def _width(kind):
    """Numbers of a row; None where rows may differ."""
    if pyarrow.types.is_fixed_size_list(kind):
        width = _width(kind.value_type)
        return None if width is None else kind.list_size * width
    return None if _types.is_list(kind) else 1


def _of_elements(kind):
    while _types.is_list(kind):
        kind = kind.value_type
    return kind


def _is_number(kind):
    of = pyarrow.types
    return any(test(kind) for test in (of.is_integer, of.is_floating, of.is_boolean, of.is_decimal))


class Concatenator(OfSome):
    """An array for each row, of the values of several columns, which go.

    Args:
        columns: In the order of the array.
        output_column_name: The new column.
        dtype: Of the array; None: one that holds all types of the columns, for decimals float64. A number that it does not
            hold is an error, as are nulls and NaN where it is one of whole numbers; of fractions these keep what is before
            the point. Times and spans of time count as whole numbers of their column's unit, such as nanoseconds, times
            from 1970 on in UTC; texts as the numbers that they say.
        raise_if_missing: Whether columns that are not there are an error; otherwise there is a warning.
        flatten: Whether columns that are arrays themselves are put one behind the other; rows of these that are null are an
            error.
    """

    _is_fittable = False
    _drops_columns = True

    def __init__(self, columns: List[str], output_column_name: str = "concat_out", dtype: Any = None,
                 raise_if_missing: bool = False, flatten: bool = False):
        super().__init__()
        self.columns, self.output_column_name, self.dtype = list(columns), output_column_name, dtype
        self.raise_if_missing, self.flatten = raise_if_missing, flatten

    def _outputs(self, frame):
        there = self._there(list(frame.columns))
        if self.flatten:
            for column in there:
                values = frame[column]
                if values.isna().any() and values.map(lambda value: isinstance(value, (list, numpy.ndarray))).any():
                    _refuse_null_rows_of(column)
        return {self.output_column_name: self._concatenated([frame[column] for column in there], self.dtype)}

    def _outputs_of_table(self, table):
        """The table says what the columns are: pandas has other types for a block where some values are null."""
        there = self._there(table.schema.names)
        kinds = [_types.by_name(table.schema)[column] for column in there]
        if self.flatten:
            for column in there:
                _refuse_null_rows(column, _blocks.column_from(table.column(column)))
        dtype = self._common_type(kinds) if self.dtype is None else self.dtype
        widths = [_width(kind) if self.flatten else 1 for kind in kinds]
        if not table.num_rows and dtype is not None and None not in widths:
            made = numpy.empty((0, sum(widths)), dtype)  # without rows numpy sees no width
        else:
            frame = frame_of_columns(table, there)
            made = self._concatenated([frame[column] for column in there], dtype)
        return {self.output_column_name: made}

    def _frame_of(self, block):
        return _blocks.to_format(_blocks.joined(self._transform_arrow(block.to_arrow())), "pandas")

    def _common_type(self, kinds):
        """None where columns are no numbers. Decimals are doubles in arrays."""
        kinds = [_of_elements(kind) for kind in kinds] if self.flatten else kinds
        if not all(map(_is_number, kinds)):
            return None
        return numpy.result_type(*("float64" if pyarrow.types.is_decimal(kind) else kind.to_pandas_dtype() for kind in kinds))

    def _there(self, names):
        there = [column for column in self.columns if column in names]
        if missing := [column for column in self.columns if column not in there]:
            message = f"the batch has no columns {missing}; it has {names}"
            if self.raise_if_missing or not there:
                raise ValueError(message)
            _log.warning(message)
        return there

    def _concatenated(self, columns, dtype):
        if dtype is not None and numpy.dtype(dtype).kind in "iubf":
            columns = [_with_times_as_numbers(values) for values in columns]
            for values in columns:
                _refuse_what_does_not_fit(values, numpy.dtype(dtype))
        parts = [self._part(values, dtype) for values in columns]
        return [numpy.concatenate(row) for row in zip(*parts)] if self.flatten else numpy.column_stack(parts)

    def _part(self, values, dtype):
        """What a column adds to the rows."""
        with contextlib.nullcontext() if dtype is None else _naming(values.name, numpy.dtype(dtype)):
            if not self.flatten:
                return values.to_numpy(dtype=dtype)
            parts = map(numpy.atleast_1d, values)
            return list(parts) if dtype is None else [part.astype(dtype) for part in parts]

    def get_output_columns(self) -> List[str]:
        return [self.output_column_name]
