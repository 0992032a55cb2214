"""Many columns of counts as a few."""

from typing import Any, Dict, List

import numpy
import pyarrow

from paceline.data import _blocks
from paceline.data.preprocessors._columns import OfSome, in_one
from paceline.data.preprocessors._numbers import doubles_of, plain, refuse_what_are_no_numbers
from paceline.data.preprocessors._text import place_of


class FeatureHasher(OfSome):
    """For each row an array of `num_features` sums: a column counts at the place that the hash of its name says.

    The sums' type goes by the columns' types: int64 for integers, uint64 where all are that, otherwise a floating-point
    type. There a null makes the sum NaN; among integers it is an error.

    Args:
        columns: Of numbers, such as how often a word is in a text.
        num_features: Length of the array.
        output_column: Where it goes.
    """

    _is_fittable = False

    def __init__(self, columns: List[str], num_features: int, output_column: str):
        super().__init__()
        self.columns, self.num_features, self.output_column = list(columns), num_features, output_column

    def _outputs(self, frame):
        return self._sums({column: _blocks._series(frame[column]) for column in self.columns}, len(frame))

    def _outputs_of_table(self, table):
        return self._sums({column: table.column(column) for column in self.columns}, table.num_rows)

    def _sums(self, given: Dict[str, Any], rows: int):
        columns = {name: plain(in_one(values)) for name, values in given.items()}
        dtype = numpy.result_type(*(_dtype_of_sums(values.type, name) for name, values in columns.items()))
        sums = numpy.zeros((rows, self.num_features), dtype=dtype)
        for name, values in columns.items():
            sums[:, place_of(name, self.num_features)] += _numbers(values, name, dtype)
        return {self.output_column: sums}

    def get_output_columns(self) -> List[str]:
        return [self.output_column]


def _dtype_of_sums(kind, column):
    """Sums of counts of a few bits have room."""
    refuse_what_are_no_numbers(kind, column)
    of = pyarrow.types
    if of.is_boolean(kind) or of.is_integer(kind):
        return numpy.uint64 if of.is_uint64(kind) else numpy.int64
    return kind.to_pandas_dtype() if of.is_floating(kind) else numpy.float64


def _numbers(values, column, dtype):
    if dtype.kind == "f":
        return doubles_of(values, column).astype(dtype)
    if values.null_count:
        raise ValueError(
            f"the column {column!r} has nulls, which {dtype} has not; fill them first, as with SimpleImputer, or filter them, "
            "or make the column float64"
        )
    return values.cast(pyarrow.from_numpy_dtype(dtype)).to_numpy(zero_copy_only=False)
