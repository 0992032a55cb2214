"""Rows of length 1."""

from typing import List, Optional

import numpy

from paceline.data.preprocessors._numbers import OfNumbers

_NORMS = {
    "l1": lambda rows: numpy.abs(rows).sum(axis=1),
    "l2": lambda rows: numpy.sqrt((rows**2).sum(axis=1)),
    "max": lambda rows: numpy.abs(rows).max(axis=1),
}


class Normalizer(OfNumbers):
    """Divides several columns of a row by their length.

    Args:
        columns: Of numbers.
        norm: "l1": the sum of absolute values; "l2": the root of the sum of squares; "max": the largest absolute value.
        output_columns: Where they go; None: into the same columns.
    """

    _is_fittable = False
    _keeps_narrow_floats = False

    def __init__(self, columns: List[str], norm: str = "l2", *, output_columns: Optional[List[str]] = None):
        super().__init__(columns, output_columns)
        if norm not in _NORMS:
            raise ValueError(f"norm is {norm!r}; allowed: {', '.join(map(repr, _NORMS))}")
        self.norm = norm

    def _computed(self, doubles):
        import pandas

        norm = _NORMS[self.norm](pandas.concat(doubles, axis=1))
        return [values / norm for values in doubles]
