"""What preprocessors of columns have in common."""

import collections
from typing import Any, Dict, List, Optional

from paceline.data import _aggregation
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
        for column, output in zip(self.columns, self.output_columns):
            frame[output] = self._column(frame[column])
        return frame

    def _column(self, values: Any) -> Any:
        """A pandas.Series as what it makes of it. Its name is the column's."""
        raise NotImplementedError


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
