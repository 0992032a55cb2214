"""What preprocessors of columns have in common."""

import collections
import decimal
import numbers
from typing import Any, Dict, List, Optional

import numpy
import pyarrow
import pyarrow.compute

from paceline.data import _aggregation, _blocks, _types, aggregate
from paceline.data._aggregation import OfColumn
from paceline.data.preprocessor import Preprocessor


class OfColumns(Preprocessor):
    """One that makes a column of each of its columns, in its place or as one of output_columns."""

    def __init__(self, columns: List[str], output_columns: Optional[List[str]] = None):
        super().__init__()
        if output_columns and len(output_columns) != len(columns):
            raise ValueError(f"output_columns has {len(output_columns)} names; wanted: one for each of {len(columns)} columns")
        self.columns, self.output_columns = list(columns), list(output_columns or columns)

    def _transform_pandas(self, frame):
        return self._with(frame, [self._column(frame[column]) for column in self.columns])

    def _with(self, frame, made):
        """The frame with its outputs, which may be columns that others of them are made of: so all are made before."""
        for output, values in zip(self.output_columns, made):
            frame[output] = values
        return frame

    def _column(self, values: Any) -> Any:
        """A pandas.Series as what it makes of it. Its name is the column's."""
        raise NotImplementedError


class OfNumbers(OfColumns):
    """One that computes, in doubles: narrower numbers would wrap, come to an end, or lose what tells them apart."""

    _keeps_narrow_floats = True  # as what comes out; models often take nothing but these

    def _transform_pandas(self, frame):
        return self._with(frame, [self._computed(frame[column]) for column in self.columns])

    def _computed(self, values):
        made = self._column(as_doubles(values))
        is_narrow = values.dtype.kind == "f" and values.dtype.itemsize < 8
        return made.astype(values.dtype) if is_narrow and self._keeps_narrow_floats else made


def as_doubles(values: Any) -> Any:
    """A pandas.Series of numbers, decimals or truth values as one of doubles, with NaN for nulls."""
    import pandas

    if values.dtype.kind in "iubf":
        doubles = values.to_numpy(dtype="float64", na_value=numpy.nan)
    else:
        doubles = [_double(value, is_missing, values.name) for value, is_missing in zip(values, values.isna())]
    return pandas.Series(doubles, values.index, "float64", name=values.name)


def _double(value, is_missing, column):
    if is_missing:
        return numpy.nan
    if not isinstance(value, (numbers.Real, decimal.Decimal, numpy.bool_)):
        raise TypeError(f"the column {column!r} has values of type {type(value).__name__}; wanted: numbers")
    return float(value)


class OfArrow(OfColumns):
    """One that works with Arrow's columns: pandas makes doubles of whole numbers of which some are null, so that a
    dataset's blocks would differ in type, and large numbers be others. What transform_batch() gives are DataFrames."""

    @classmethod
    def preferred_batch_format(cls) -> str:
        return "pyarrow"

    def _transform_arrow(self, table):
        inputs = {name: table.column(name).combine_chunks() for name in self.columns if name in table.schema.names}
        made = [self._made(name, inputs, table.num_rows) for name in self.columns]
        for output, values in zip(self.output_columns, made):
            place = table.schema.get_field_index(output)
            table = table.append_column(output, values) if place < 0 else table.set_column(place, output, values)
        return table

    def _made(self, name, inputs, rows):
        return self._arrow_column(name, inputs[name]) if name in inputs else self._absent_column(name, rows)

    def _arrow_column(self, name: str, values: pyarrow.Array) -> pyarrow.Array:
        """What it makes of a column."""
        raise NotImplementedError

    def _absent_column(self, name: str, rows: int) -> pyarrow.Array:
        """What it makes where there is no such column."""
        raise KeyError(name)

    def _transform_batch(self, data):
        import pandas

        if not isinstance(data, pandas.DataFrame):
            return _blocks.to_format(_blocks.joined(super()._transform_batch(data)), "pandas")
        frame = data.copy()  # other columns may be what Arrow cannot hold
        inputs = {name: _array(frame[name]) for name in self.columns if name in frame.columns}
        made = [self._made(name, inputs, len(frame)) for name in self.columns]
        return self._with(frame, [_series_of(values).set_axis(frame.index) for values in made])


def _series_of(values):
    import pandas

    return pandas.Series(values.to_pylist()) if _types.is_list(values.type) else values.to_pandas()


def _array(series):
    values = _blocks._series(series)
    return values.combine_chunks() if isinstance(values, pyarrow.ChunkedArray) else values


class KnownMean(aggregate.Mean):
    """The mean, for which NaN is a null."""

    def _values(self, block):
        return _known(super()._values(block))


class KnownStd(aggregate.Std):
    """The standard deviation, for which NaN is a null."""

    def _values(self, block):
        return _known(super()._values(block))


def _known(values):
    if values is None or not pyarrow.types.is_floating(values.type):
        return values
    known = values.filter(pyarrow.compute.invert(pyarrow.compute.is_nan(values)))
    return known if len(known) else None


class Counts(OfColumn):
    """How often each value of a column comes, as a collections.Counter; None for nulls.

    Args:
        on: The column.
        parts: Makes several values of one, such as the words of a text; None: each counts as it is, lists as tuples.
    """

    _kind = "counts"

    def __init__(self, on: str, parts: Any = None):
        super().__init__(on, False, None, collections.Counter)
        self._parts = parts

    def aggregate_block(self, block):
        counts: collections.Counter = collections.Counter()
        for value in block.column(self._column).to_pylist():
            if value is None or self._parts is None:
                counts[tuple(value) if isinstance(value, list) else value] += 1
            else:
                counts.update(self._parts(value))
        return counts

    def combine(self, current_accumulator, new):
        current_accumulator.update(new)
        return current_accumulator


def counts_of(dataset: Any, columns: List[str], parts: Any = None) -> Dict[str, collections.Counter]:
    """The Counts of columns, in one pass."""
    counted = _aggregation.of(dataset, [Counts(column, parts) for column in columns])
    return {column: counted[f"counts({column})"] for column in columns}
