"""Texts as words, and words as numbers."""

import hashlib
from typing import Any, Callable, List, Optional

import pyarrow

from paceline.data.preprocessors._columns import OfColumns


def split_at_spaces(value: str) -> List[str]:
    return value.split(" ")


def place_of(value: Any, places: int) -> int:
    """One of so many places, the same in every process."""
    return int(hashlib.sha256(str(value).encode()).hexdigest(), 16) % places


class OfTexts(OfColumns):
    """One that makes a list of each text. Its lists are of one type, also in blocks that have nothing in theirs, where
    Arrow finds none."""

    _kind = pyarrow.list_(pyarrow.int64())

    def _outputs_of_table(self, table):
        return {output: self._typed(lists) for output, lists in super()._outputs_of_table(table).items()}

    def _typed(self, lists):
        if any(one is not None and len(one) for one in lists):
            return lists
        return pyarrow.array([None if one is None else [] for one in lists], self._kind)


def words_of(values: Any, tokenization_fn: Optional[Callable[[str], List[str]]]) -> List[Optional[List[str]]]:
    """The words of each text of a pandas.Series; None for nulls."""
    split = tokenization_fn or split_at_spaces
    return [None if missing else split(value) for value, missing in zip(values, values.isna())]
