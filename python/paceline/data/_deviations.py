"""How far numbers are from their mean, of parts that are merged."""

import dataclasses
import math

import pyarrow
import pyarrow.compute

from paceline.data._exact import squares_of, sum_of


@dataclasses.dataclass(frozen=True)
class Deviations:
    """Of no numbers, unless it is of() some. Of integers (and truth values) it holds exact sums, so that they are rounded
    once, however they are cut into parts; of others the mean, and the sum of the squares of the deviations from it."""

    rows: int = 0
    total: int = 0  # of integers
    total_of_squares: int = 0
    mean: float = 0.0  # of others
    squares: float = 0.0
    is_exact: bool = True

    @staticmethod
    def of(values: pyarrow.Array) -> "Deviations":
        """Of numbers without nulls, of which there is at least one."""
        if pyarrow.types.is_boolean(values.type):
            values = values.cast(pyarrow.uint8())
        if pyarrow.types.is_integer(values.type):
            return Deviations(len(values), sum_of(values), squares_of(values))
        numbers = values.cast(pyarrow.float64(), safe=False)
        squares = pyarrow.compute.variance(numbers).as_py() * len(numbers)
        return Deviations(len(numbers), mean=pyarrow.compute.mean(numbers).as_py(), squares=squares, is_exact=False)

    def merged(self, other: "Deviations") -> "Deviations":
        """Of these and others together."""
        if not self.rows or not other.rows:
            return self if self.rows else other
        rows = self.rows + other.rows
        if self.is_exact and other.is_exact:
            return Deviations(rows, self.total + other.total, self.total_of_squares + other.total_of_squares)
        one, two = self._rounded(), other._rounded()
        apart = two.mean - one.mean
        squares = one.squares + two.squares + apart * apart * one.rows * two.rows / rows
        return Deviations(rows, mean=one.mean + apart * two.rows / rows, squares=squares, is_exact=False)

    def std(self, ddof: int) -> float:
        """The standard deviation, with ``rows - ddof`` in the denominator; NaN where that is not above 0."""
        if self.rows <= ddof:
            return math.nan
        if self.is_exact:  # Python divides integers of any length, and rounds once
            return math.sqrt((self.rows * self.total_of_squares - self.total**2) / (self.rows * (self.rows - ddof)))
        return math.sqrt(self.squares / (self.rows - ddof))

    def _rounded(self):
        if not self.is_exact:
            return self
        squares = (self.rows * self.total_of_squares - self.total**2) / self.rows
        return Deviations(self.rows, mean=self.total / self.rows, squares=squares, is_exact=False)
