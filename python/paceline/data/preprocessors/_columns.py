"""What preprocessors of columns have in common."""

import collections
from typing import Any, Dict, List, Optional

import numpy
import pyarrow
import pyarrow.compute

from paceline.data import _aggregation, aggregate
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
    """One that computes. Whole numbers are doubles for it, as narrow ones would wrap or come to an end."""

    def _transform_pandas(self, frame):
        return self._with(frame, [self._column(as_doubles(frame[column])) for column in self.columns])


def as_doubles(values: Any) -> Any:
    """A pandas.Series of whole numbers or truth values as one of doubles, with NaN for nulls; any other as it is."""
    if values.dtype.kind not in "iub":
        return values
    import pandas

    return pandas.Series(values.to_numpy(dtype="float64", na_value=numpy.nan), values.index, name=values.name)


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
