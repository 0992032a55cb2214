"""Texts as words, and words as numbers."""

import hashlib
from typing import Any, Callable, List, Optional


def split_at_spaces(value: str) -> List[str]:
    return value.split(" ")


def place_of(value: Any, places: int) -> int:
    """One of so many places, the same in every process."""
    return int(hashlib.sha256(str(value).encode()).hexdigest(), 16) % places


def words_of(values: Any, tokenization_fn: Optional[Callable[[str], List[str]]]) -> List[Optional[List[str]]]:
    """The words of each text of a pandas.Series; None for nulls."""
    split = tokenization_fn or split_at_spaces
    return [None if missing else split(value) for value, missing in zip(values, values.isna())]
