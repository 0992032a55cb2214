"""Texts as counts of their words."""

import collections
from typing import Callable, List, Optional

from paceline.data.preprocessors._counts import counts_of
from paceline.data.preprocessors._text import OfTexts, place_of, split_at_spaces, words_of


class HashingVectorizer(OfTexts):
    """How many words of each text have each of `num_features` hashes, as a list.

    Args:
        columns: Of texts.
        num_features: Length of the lists.
        tokenization_fn: From a text to its words; None splits it at each space.
        output_columns: Where they go; None: into the same columns.
    """

    _is_fittable = False

    def __init__(self, columns: List[str], num_features: int,
                 tokenization_fn: Optional[Callable[[str], List[str]]] = None, *,
                 output_columns: Optional[List[str]] = None):
        super().__init__(columns, output_columns)
        self.num_features, self.tokenization_fn = num_features, tokenization_fn or split_at_spaces

    def _column(self, values):
        made = []
        for words in words_of(values, self.tokenization_fn):
            counts = collections.Counter(place_of(word, self.num_features) for word in words or [])
            made.append(None if words is None else [counts[place] for place in range(self.num_features)])
        return made


class CountVectorizer(OfTexts):
    """How often each word that is in some text is in each text, as a list; the most frequent word comes first.

    Args:
        columns: Of texts.
        tokenization_fn: From a text to its words; None splits it at each space.
        max_features: Only the most frequent words.
        output_columns: Where they go; None: into the same columns.
    """

    def __init__(self, columns: List[str], tokenization_fn: Optional[Callable[[str], List[str]]] = None,
                 max_features: Optional[int] = None, *, output_columns: Optional[List[str]] = None):
        super().__init__(columns, output_columns)
        self.tokenization_fn, self.max_features = tokenization_fn or split_at_spaces, max_features

    def _fit(self, ds):
        for column, counts in counts_of(ds, self.columns, self.tokenization_fn).items():
            counts.pop(None, None)
            self.stats_[f"token_counts({column})"] = collections.Counter(dict(counts.most_common(self.max_features)))
        return self

    def _column(self, values):
        known = [word for word, _ in self.stats_[f"token_counts({values.name})"].most_common()]
        made = []
        for words in words_of(values, self.tokenization_fn):
            counts = collections.Counter(words or [])
            made.append(None if words is None else [counts[word] for word in known])
        return made
