"""Values in the place of nulls."""

import decimal
import math
from typing import Any, List, Optional

import numpy
import pyarrow
import pyarrow.compute

from paceline.data._exact import value_of
from paceline.data.preprocessors._columns import OfArrow, without_null_words
from paceline.data.preprocessors._counts import counts_of
from paceline.data.preprocessors._numbers import KnownMean, refuse_what_are_no_numbers
from paceline.data.preprocessors.encoder import is_null


class SimpleImputer(OfArrow):
    """Fills nulls and NaN, and columns that are not there.

    A column's type is the same whether a block has nulls or not. The mean makes float64 of all numbers but narrower
    floating-point ones. What is filled in otherwise is of the column's type, or where that does not hold it, makes the
    column one that holds both: 0.5, and also 0.0, makes integers float64. Dictionaries of
    texts stay dictionaries, with numbers of at least 32 bits; of others their values are taken.

    Args:
        columns: Those with nulls.
        strategy: "mean"; "most_frequent"; "constant": fill_value.
        fill_value: For "constant".
        output_columns: Where they go; None: into the same columns.
    """

    def __init__(self, columns: List[str], strategy: str = "mean", fill_value: Any = None, *,
                 output_columns: Optional[List[str]] = None):
        super().__init__(columns, output_columns)
        if strategy not in ("mean", "most_frequent", "constant"):
            raise ValueError(f"strategy is {strategy!r}; allowed: 'mean', 'most_frequent', 'constant'")
        if strategy == "constant":
            if fill_value is None:
                raise ValueError("the strategy 'constant' needs a fill_value")
            self._is_fittable = False
        self.strategy, self.fill_value = strategy, fill_value

    def _fit(self, ds):
        if self.strategy == "mean":
            self.stats_ = ds.aggregate(*(KnownMean(column) for column in self.columns))
            return self
        for column, counts in counts_of(ds, self.columns).items():
            known = [(value, count) for value, count in counts.most_common() if not is_null(value)]
            self.stats_[f"most_frequent({column})"] = value_of(known[0][0]) if known else None
        return self

    def _absent_column(self, name, rows):
        return pyarrow.repeat(self._value(name), rows)

    def _value(self, name):
        value = self.fill_value if self.strategy == "constant" else self.stats_[f"{self.strategy}({name})"]
        if value is None:
            raise ValueError(f"the column {name!r} had no values to learn from, so there is nothing to fill its nulls with")
        value = value.item() if isinstance(value, numpy.generic) else value
        return float(value) if self.strategy == "mean" else value

    def _arrow_column(self, name, values):
        value = self._value(name)
        if pyarrow.types.is_dictionary(values.type) and (self.strategy == "mean" or not _is_text(values.type.value_type)):
            values = values.dictionary_decode()
        if self.strategy == "mean":
            refuse_what_are_no_numbers(values.type, name)
            values = values if pyarrow.types.is_floating(values.type) else values.cast(pyarrow.float64(), safe=False)
        try:
            if pyarrow.types.is_dictionary(values.type):
                return _of_words(without_null_words(values), value)
            _refuse_infinite(values.type, value)
            kind = _type_for_both(values.type, value)
            missing = pyarrow.compute.is_null(values, nan_is_null=True)
            values = values.cast(kind) if kind != values.type else values
            if not missing.true_count:
                return values
            return pyarrow.compute.if_else(missing, pyarrow.scalar(value, kind), values)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError, OverflowError) as error:
            raise TypeError(f"the column {name!r} is of {values.type}, which {value!r} cannot fill: {error}") from error


def _is_text(kind):
    return any(test(kind) for test in (pyarrow.types.is_string, pyarrow.types.is_large_string, pyarrow.types.is_string_view))


def _refuse_infinite(kind, value):
    """A cast makes infinity of what a narrow floating-point type does not hold."""
    if not (pyarrow.types.is_floating(kind) and isinstance(value, (int, float, decimal.Decimal))):
        return
    if math.isfinite(value) and not math.isfinite(pyarrow.scalar(float(value)).cast(kind).as_py()):
        raise OverflowError("it is too large; make the column float64 first")


def _type_for_both(kind, value):
    """The column's, unless it does not hold the value. It depends on nothing else, so it is the same for every block."""
    if not (isinstance(value, float) and pyarrow.types.is_integer(kind)):
        try:
            pyarrow.scalar(value, kind)
            return kind
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError, OverflowError):
            pass
    both = [pyarrow.schema([("x", one)]) for one in (kind, pyarrow.scalar(value).type)]
    return pyarrow.unify_schemas(both, promote_options="permissive").field("x").type


def _of_words(values, value):
    """Of a dictionary of texts: the value may be one of its words or not. Whether one word more has room depends on the
    block, so no dictionary is left with numbers of fewer than 32 bits."""
    words, indices = values.dictionary, values.indices
    indices = indices.cast(pyarrow.int32()) if indices.type.bit_width < 32 else indices
    place = words.index(pyarrow.scalar(value, words.type)).as_py()
    if place < 0:
        place = len(words)
        words = pyarrow.concat_arrays([words, pyarrow.array([value], words.type)])
    return pyarrow.DictionaryArray.from_arrays(indices.fill_null(pyarrow.scalar(place, indices.type)), words)
