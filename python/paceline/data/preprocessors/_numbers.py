"""What preprocessors of numbers have in common: they learn of what is known, and compute in doubles."""

import decimal
import numbers
from typing import Any, List

import numpy
import pyarrow
import pyarrow.compute

from paceline.data import aggregate
from paceline.data.preprocessors._columns import OfColumns


class OfNumbers(OfColumns):
    """One that computes, in doubles: narrower numbers would wrap, come to an end, or lose what tells them apart. A
    dataset's nulls stay nulls, and NaN stays NaN."""

    _keeps_narrow_floats = True  # as what comes out; models often take nothing but these

    def _outputs(self, frame):
        given = [frame[column] for column in self.columns]
        made = self._computed([as_doubles(values) for values in given])
        return self._named([one.astype(values.dtype) if self._narrows(values.dtype) else one
                            for one, values in zip(made, given)])  # fmt: skip

    def _outputs_of_table(self, table):
        import pandas

        given = [plain(table.column(column).combine_chunks()) for column in self.columns]
        doubles = [pandas.Series(doubles_of(values, name), name=name) for values, name in zip(given, self.columns)]
        return self._named([self._array(made, values) for made, values in zip(self._computed(doubles), given)])

    def _array(self, made, given):
        made, kind = numpy.asarray(made), given.type.to_pandas_dtype()
        made = made.astype(kind) if self._narrows(numpy.dtype(kind)) else made
        return pyarrow.array(made, mask=given.is_null().to_numpy(zero_copy_only=False), from_pandas=False)

    def _narrows(self, dtype):
        return self._keeps_narrow_floats and dtype.kind == "f" and dtype.itemsize < 8

    def _computed(self, doubles: List[Any]) -> List[Any]:
        """What it makes of pandas.Series of doubles, in which nulls are NaN."""
        return [self._column(values) for values in doubles]


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


def plain(values: pyarrow.Array) -> pyarrow.Array:
    """The values of a dictionary; others as they are."""
    return values.cast(values.type.value_type) if pyarrow.types.is_dictionary(values.type) else values


def doubles_of(values: pyarrow.Array, column: str) -> numpy.ndarray:
    """The same of an array."""
    values = plain(values)
    refuse_what_are_no_numbers(values.type, column)
    if pyarrow.types.is_decimal(values.type):  # Arrow's cast does not give the nearest double
        return numpy.array([numpy.nan if value is None else float(value) for value in values.to_pylist()], "float64")
    return values.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)


def refuse_what_are_no_numbers(kind: pyarrow.DataType, column: str) -> None:
    """Before a cast, for which texts of digits are numbers, too."""
    of = pyarrow.types
    if not any(test(kind) for test in (of.is_integer, of.is_floating, of.is_decimal, of.is_boolean, of.is_null)):
        raise TypeError(f"the column {column!r} has {kind}; wanted: numbers")


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
