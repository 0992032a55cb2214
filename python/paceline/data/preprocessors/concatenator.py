"""Several columns as one of arrays."""

import logging
from typing import Any, List, Optional

import numpy
import pyarrow

from paceline.data import _blocks, _types
from paceline.data.preprocessor import Preprocessor

_log = logging.getLogger(__name__)


def _arrays_of(values):
    """The numbers of a pandas.Series, which may be arrays itself."""
    if values.dtype != object:
        kind = "float64" if values.dtype.kind in "iu" and values.isna().any() else None
        return [values.to_numpy() if kind is None else values.to_numpy(dtype=kind, na_value=numpy.nan)]
    return [numpy.asarray(value) for value in values]  # columns of arrays, and of numbers as Python has them


def _refuse_what_is_no_whole_number(values, dtype):
    """numpy would make the smallest number of NaN, and leave out the upper bits of what is too large."""
    for array in _arrays_of(values):
        is_float = array.dtype.kind == "f"
        if array.dtype == object and any(one is None for one in array.flat) or is_float and not numpy.isfinite(array).all():
            raise ValueError(
                f"the column {values.name!r} has nulls, NaN or infinite numbers, which {dtype} has "
                "not; fill them first, as with SimpleImputer, or filter them, or take a dtype of floating-point numbers"
            )
        if dtype.kind == "b" or array.dtype.kind not in "iuf" or not array.size:
            continue
        limits = numpy.iinfo(dtype)
        for one in (array.min(), array.max()):
            if not limits.min <= int(one) <= limits.max:
                raise ValueError(f"the column {values.name!r} has {one}, which {dtype} does not hold; it goes from "
                                 f"{limits.min} to {limits.max}; take a wider dtype")


def _of_elements(kind):
    while _types.is_list(kind):
        kind = kind.value_type
    return kind


def _is_number(kind):
    return any(test(kind) for test in (pyarrow.types.is_integer, pyarrow.types.is_floating, pyarrow.types.is_boolean))


class Concatenator(Preprocessor):
    """An array for each row, of the values of several columns, which go.

    Args:
        columns: In the order of the array.
        output_column_name: The new column.
        dtype: Of the array; None: one that holds all types of the columns. One of whole numbers is an error where a column
            has nulls, NaN or numbers that it does not hold; of fractions it keeps what is before the point.
        raise_if_missing: Whether columns that are not there are an error; otherwise there is a warning.
        flatten: Whether columns that are arrays themselves are put one behind the other.
    """

    _is_fittable = False

    def __init__(self, columns: List[str], output_column_name: str = "concat_out", dtype: Any = None,
                 raise_if_missing: bool = False, flatten: bool = False):
        super().__init__()
        self.columns, self.output_column_name, self.dtype = list(columns), output_column_name, dtype
        self.raise_if_missing, self.flatten = raise_if_missing, flatten

    @classmethod
    def preferred_batch_format(cls) -> str:
        return "pyarrow"

    def _transform_arrow(self, table):
        """Of a table, which says what the columns are: pandas has other types for a block where some values are null."""
        frame = _blocks.to_format(_blocks.joined(table), "pandas")
        return self._concatenated(frame, self._common_type(table.schema) if self.dtype is None else self.dtype)

    def _transform_batch(self, data):
        import pandas

        if isinstance(data, pandas.DataFrame):
            return self._concatenated(data.copy(), self.dtype)
        return super()._transform_batch(data)

    def _common_type(self, schema):
        """None where columns are no numbers."""
        kinds = [_types.by_name(schema)[column] for column in self.columns if column in schema.names]
        if self.flatten:
            kinds = [_of_elements(kind) for kind in kinds]
        if not kinds or not all(map(_is_number, kinds)):
            return None
        return numpy.result_type(*(kind.to_pandas_dtype() for kind in kinds))

    def _concatenated(self, frame, dtype):
        there = [column for column in self.columns if column in frame.columns]
        if missing := [column for column in self.columns if column not in there]:
            message = f"the batch has no columns {missing}; it has {list(frame.columns)}"
            if self.raise_if_missing or not there:
                raise ValueError(message)
            _log.warning(message)
        if dtype is not None and numpy.dtype(dtype).kind in "iub":
            for column in there:
                _refuse_what_is_no_whole_number(frame[column], numpy.dtype(dtype))
        if self.flatten:
            rows = [numpy.concatenate([numpy.atleast_1d(value) for value in row]) for row in zip(*(frame[c] for c in there))]
            rows = rows if dtype is None else [row.astype(dtype) for row in rows]
        else:
            rows = list(numpy.column_stack([frame[column].to_numpy(dtype=dtype) for column in there]))
        frame = frame.drop(columns=there)
        frame[self.output_column_name] = rows
        return frame

    def get_output_columns(self) -> List[str]:
        return [self.output_column_name]
