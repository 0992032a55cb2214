"""Texts as lists of words."""

from typing import Callable, List, Optional

import pyarrow

from paceline.data.preprocessors._text import OfTexts, split_at_spaces, words_of


class Tokenizer(OfTexts):
    """Each text as its words.

    Args:
        columns: Of texts.
        tokenization_fn: From a text to its words; None splits it at each space.
        output_columns: Where they go; None: into the same columns.
    """

    _is_fittable = False
    _kind = pyarrow.list_(pyarrow.string())

    def __init__(self, columns: List[str], tokenization_fn: Optional[Callable[[str], List[str]]] = None,
                 output_columns: Optional[List[str]] = None):
        super().__init__(columns, output_columns)
        self.tokenization_fn = tokenization_fn or split_at_spaces

    def _column(self, values):
        return words_of(values, self.tokenization_fn)
