"""Categories as numbers."""

import collections
import numbers
from typing import Any, Dict, List, Optional

import numpy
import pyarrow

from paceline.data import _types
from paceline.data._exact import key_of, value_of
from paceline.data.preprocessor import Preprocessor
from paceline.data.preprocessors._columns import OfArrow, OfColumns
from paceline.data.preprocessors._counts import counts_of
from paceline.data.preprocessors._numbers import doubles_of


class _OfCategories(OfColumns):
    """One that numbers the values of each column in their order: ``stats_["unique_values(column)"]``, in which lists are
    tuples and structs tuples of pairs."""

    _counts_elements = False  # of lists
    _is_as_wide_as_categories = False  # so that it needs some

    def __init__(self, columns, output_columns=None, max_categories=None):
        super().__init__(columns, output_columns)
        if others := [column for column in max_categories or {} if column not in columns]:
            raise ValueError(f"max_categories names {others}, which are none of the columns {columns}")
        self.max_categories: Dict[str, int] = max_categories or {}
        for column, most in self.max_categories.items():
            if isinstance(most, bool) or not isinstance(most, numbers.Integral) or most < 1:
                raise ValueError(f"max_categories of {column!r} is {most!r}; allowed: a whole number from 1")

    def _fit(self, ds):
        for column, values in categories(ds, self.columns, self._counts_elements, self.max_categories).items():
            if self._is_as_wide_as_categories and not values:
                raise ValueError(f"the column {column!r} has no values to make categories of")
            self.stats_[f"unique_values({column})"] = values
        return self

    def _column(self, values):
        refuse_nulls(values)
        return self._encoded(values, self.stats_[f"unique_values({values.name})"])


def categories(dataset: Any, columns: List[str], counts_elements: bool, most: Dict[str, int]) -> Dict[str, Dict[Any, int]]:
    """The values of each column, or the most frequent ones of them, by their places in the order of values.

    Raises:
        ValueError: For nulls.
    """
    found = {}
    for column, counts in counts_of(dataset, columns, _elements if counts_elements else None).items():
        if any(is_null(value) for value in counts):
            _refuse_nulls_of(column)
        chosen = [value for value, _ in counts.most_common(most.get(column))]
        found[column] = {value: place for place, value in enumerate(sorted(chosen))}
    return found


def _elements(value):
    return value if isinstance(value, list) else [value]


def is_null(value: Any) -> bool:
    return value is None or value != value


def refuse_nulls(values: Any) -> None:
    if values.isna().any():
        _refuse_nulls_of(values.name)


def _refuse_nulls_of(column):
    raise ValueError(f"the column {column!r} has nulls; fill them first, as with SimpleImputer, or filter them")


class OrdinalEncoder(OfArrow, _OfCategories):
    """Each value as its place among all values, from 0, which is an int64; one that was not there before as null.

    Args:
        columns: Of values that can be sorted, or of lists of them.
        encode_lists: Whether lists become lists of places; otherwise each list is a value.
        output_columns: Where they go; None: into the same columns.
    """

    def __init__(self, columns: List[str], *, encode_lists: bool = True, output_columns: Optional[List[str]] = None):
        super().__init__(columns, output_columns)
        self.encode_lists = self._counts_elements = encode_lists

    def _arrow_column(self, name, values):
        if values.is_null(nan_is_null=True).true_count:
            _refuse_nulls_of(name)
        places = self.stats_[f"unique_values({name})"]
        if self.encode_lists and _types.is_list(values.type):
            return pyarrow.array([[places.get(key_of(value)) for value in row] for row in values.to_pylist()], _of_places(values.type))
        if pyarrow.types.is_dictionary(values.type):
            of_words = pyarrow.array([places.get(key_of(word)) for word in values.dictionary.to_pylist()], pyarrow.int64())
            return of_words.take(values.indices)
        return pyarrow.array([places.get(key_of(value)) for value in values.to_pylist()], pyarrow.int64())


def _of_places(kind):
    """The type of lists of places, whose lengths are those of the values'."""
    if pyarrow.types.is_fixed_size_list(kind):
        return pyarrow.list_(pyarrow.int64(), kind.list_size)
    return pyarrow.large_list(pyarrow.int64()) if pyarrow.types.is_large_list(kind) else pyarrow.list_(pyarrow.int64())


class OneHotEncoder(_OfCategories):
    """Each value as an array that has a 1 at its place; only zeros for one that was not there before.

    Args:
        columns: Of values that can be sorted.
        max_categories: By column: only the most frequent ones have a place.
        output_columns: Where they go; None: into the same columns.
    """

    _is_as_wide_as_categories = True

    def __init__(self, columns: List[str], *, max_categories: Optional[Dict[str, int]] = None,
                 output_columns: Optional[List[str]] = None):
        super().__init__(columns, output_columns, max_categories)

    def _encoded(self, values, places):
        hot = numpy.zeros((len(values), len(places)), dtype="uint8")
        for row, value in enumerate(values):
            place = places.get(key_of(value))
            if place is not None:
                hot[row, place] = 1
        return hot


class MultiHotEncoder(_OfCategories):
    """Each list as an array that counts how often each value is in it.

    Args:
        columns: Of lists.
        max_categories: By column: only the most frequent ones have a place.
        output_columns: Where they go; None: into the same columns.
    """

    _counts_elements = _is_as_wide_as_categories = True

    def __init__(self, columns: List[str], *, max_categories: Optional[Dict[str, int]] = None,
                 output_columns: Optional[List[str]] = None):
        super().__init__(columns, output_columns, max_categories)

    def _encoded(self, values, places):
        def encoded(row):
            counts = collections.Counter(map(key_of, row if isinstance(row, (list, numpy.ndarray)) else [row]))
            return [counts.get(value, 0) for value in places]

        return values.map(encoded)


class LabelEncoder(OrdinalEncoder):
    """OrdinalEncoder of the column of labels, and back."""

    def __init__(self, label_column: str, *, output_column: Optional[str] = None):
        super().__init__([label_column], output_columns=[output_column or label_column])
        self.label_column, self.output_column = label_column, output_column or label_column

    def inverse_transform(self, ds: Any) -> Any:
        """A dataset with the labels whose places are in output_column; null for what is no place.

        Raises, when it is read:
            TypeError: For other columns than of numbers.
            ValueError: For numbers with something behind the point.
        """
        self._check_fitted()
        return ds.map_batches(_Inverse(self), batch_format="pyarrow", udf_modifying_row_count=False)


class _Inverse:
    __name__ = "LabelEncoder.inverse"

    def __init__(self, encoder: LabelEncoder):
        self.encoder = encoder

    def __call__(self, table):
        column = self.encoder.label_column
        # In the order of their places.
        labels = _types.array([value_of(key) for key in self.encoder.stats_[f"unique_values({column})"]])
        given = self.encoder.output_column
        places = doubles_of(table.column(given).combine_chunks(), given)
        broken = places[numpy.isfinite(places) & (places != numpy.trunc(places))]
        if broken.size:
            raise ValueError(f"the column {given!r} has {broken[0]}; wanted: places, which are whole numbers")
        is_known = (places >= 0) & (places < len(labels))
        made = labels.take(pyarrow.array(numpy.where(is_known, places, 0).astype("int64"), mask=~is_known))
        at = table.schema.get_field_index(column)
        return table.append_column(column, made) if at < 0 else table.set_column(at, column, made)


class Categorizer(OfColumns):
    """Values as categories of pandas, which Arrow keeps in a dictionary.

    Args:
        columns: Of values that can be sorted.
        dtypes: By column: a pandas.CategoricalDtype instead of all values there are.
        output_columns: Where they go; None: into the same columns.
    """

    def __init__(self, columns: List[str], dtypes: Optional[Dict[str, Any]] = None, output_columns: Optional[List[str]] = None):
        super().__init__(columns, output_columns)
        self.dtypes = dtypes or {}

    def _fit(self, ds: Any) -> Preprocessor:
        import pandas

        self.stats_ = dict(self.dtypes)
        for column, counts in counts_of(ds, [one for one in self.columns if one not in self.dtypes]).items():
            self.stats_[column] = pandas.CategoricalDtype(sorted(value for value in counts if not is_null(value)))
        return self

    def _column(self, values):
        return values.astype(self.stats_[values.name])
