"""Sums and their like over all rows of a dataset, in one pass."""

import math
from typing import Any, Dict, List, Union

import pyarrow
import pyarrow.compute


class _Moments:
    """Count, sum, extremes, and the sum of squared deviations, which is merged block by block (Chan and others, 1979)."""

    def __init__(self) -> None:
        self.rows, self.nulls, self.total = 0, 0, None
        self.mean, self.squares = 0.0, 0.0
        self.least = self.greatest = None

    def add(self, column: pyarrow.Array) -> None:
        self.nulls += column.null_count
        column = column.drop_null()
        if not len(column):
            return
        extremes = pyarrow.compute.min_max(column)
        least, greatest = extremes["min"].as_py(), extremes["max"].as_py()
        self.least = least if self.least is None else min(self.least, least)
        self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)
        if pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type) or pyarrow.types.is_boolean(column.type):
            total = pyarrow.compute.sum(column).as_py()
            self.total = total if self.total is None else self.total + total
            numbers = column.cast(pyarrow.float64(), safe=False)
            mean = pyarrow.compute.mean(numbers).as_py()
            squares = pyarrow.compute.variance(numbers).as_py() * len(column)
            rows = self.rows + len(column)
            self.squares += squares + (mean - self.mean) ** 2 * self.rows * len(column) / rows
            self.mean += (mean - self.mean) * len(column) / rows
        self.rows += len(column)


def of(dataset: Any, what: str, on: Union[None, str, List[str]], ignore_nulls: bool, ddof: int) -> Any:
    columns = [on] if isinstance(on, str) else list(on or dataset.columns())
    moments: Dict[str, _Moments] = {column: _Moments() for column in columns}
    for block in dataset.select_columns(columns)._blocks():
        for column in columns:
            moments[column].add(block.column(column))
    values = {f"{what}({column})": _value(moments[column], what, ignore_nulls, ddof) for column in columns}
    return next(iter(values.values())) if len(values) == 1 else values


def _value(moments, what, ignore_nulls, ddof):
    if not moments.rows or (moments.nulls and not ignore_nulls):
        return None
    if what == "sum":
        return moments.total
    if what == "min":
        return moments.least
    if what == "max":
        return moments.greatest
    if what == "mean":
        return moments.mean
    return math.sqrt(moments.squares / (moments.rows - ddof)) if moments.rows > ddof else None
