"""How often each value of a column comes."""

import collections
from typing import Any, Dict, List

from paceline.data import _aggregation
from paceline.data._aggregation import OfColumn
from paceline.data._exact import key_of


class Counts(OfColumn):
    """How often each value of a column comes, as a collections.Counter of the values' keys (_exact.key_of); None for nulls.

    Args:
        on: The column.
        parts: Makes several values of one, such as the words of a text; None: each counts as it is.
    """

    _kind = "counts"

    def __init__(self, on: str, parts: Any = None):
        super().__init__(on, False, None, collections.Counter)
        self._parts = parts

    def aggregate_block(self, block):
        values = block.column(self._column).to_pylist()
        if self._parts is None:
            return collections.Counter(map(key_of, values))
        counts: collections.Counter = collections.Counter()
        for value in values:
            counts.update([None] if value is None else map(key_of, self._parts(value)))
        return counts

    def combine(self, current_accumulator, new):
        current_accumulator.update(new)
        return current_accumulator


def counts_of(dataset: Any, columns: List[str], parts: Any = None) -> Dict[str, collections.Counter]:
    """The Counts of columns, in one pass."""
    counted = _aggregation.of(dataset, [Counts(column, parts) for column in columns])
    return {column: counted[f"counts({column})"] for column in columns}
