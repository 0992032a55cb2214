"""Many columns of counts as a few."""

from typing import List

import numpy

from paceline.data.preprocessors._columns import OfSome
from paceline.data.preprocessors._text import place_of


def _wide(numbers):
    """Counts of a few bits as such whose sums have room."""
    return numbers.astype(numpy.int64) if numbers.dtype.kind in "iub" and numbers.dtype != numpy.uint64 else numbers


class FeatureHasher(OfSome):
    """For each row an array of `num_features` sums: a column counts at the place that the hash of its name says.

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
        numbers = [_wide(frame[column].to_numpy()) for column in self.columns]
        sums = numpy.zeros((len(frame), self.num_features), dtype=numpy.result_type(*numbers))
        for column, values in zip(self.columns, numbers):
            sums[:, place_of(column, self.num_features)] += values
        return {self.output_column: sums}

    def get_output_columns(self) -> List[str]:
        return [self.output_column]
