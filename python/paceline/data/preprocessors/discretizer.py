"""Numbers as the bins in which they are."""

from typing import Any, Dict, Iterable, List, Optional, Union

import numpy
import pyarrow

from paceline.data import aggregate
from paceline.data.preprocessors._columns import OfColumns


class _OfBins(OfColumns):
    def __init__(self, columns, bins, right, include_lowest, duplicates, dtypes, output_columns):
        super().__init__(columns, output_columns)
        if isinstance(bins, dict) and (missing := [column for column in columns if column not in bins]):
            raise ValueError(f"bins has none for the columns {missing}")
        self.bins, self.right, self.include_lowest = bins, right, include_lowest
        self.duplicates, self.dtypes = duplicates, dtypes

    def _bins_of(self, column):
        return self.bins[column] if isinstance(self.bins, dict) else self.bins

    def _outputs_of_table(self, table):
        """pandas makes doubles of the numbers of a block in which some are null."""
        made = super()._outputs_of_table(table)
        return {output: pyarrow.array(values, pyarrow.int64(), from_pandas=True) if values.dtype.kind == "f" else values
                for output, values in made.items()}  # fmt: skip

    def _column(self, values):
        import pandas

        kind = (self.dtypes or {}).get(values.name)
        named = isinstance(kind, pandas.CategoricalDtype)
        return pandas.cut(
            values,
            self.stats_[values.name] if self._is_fittable else self._bins_of(values.name),
            right=self.right,
            labels=list(kind.categories) if named else False,
            ordered=bool(kind.ordered) if named else True,
            include_lowest=self.include_lowest,
            duplicates=self.duplicates,
        )


class CustomKBinsDiscretizer(_OfBins):
    """The number of the bin, of bins whose edges are given; null outside them.

    Args:
        columns: Of numbers.
        bins: Edges, or a pandas.IntervalIndex; or these by column.
        right: Whether bins have their upper edge, and not their lower one.
        include_lowest: Whether the first has its lower edge.
        duplicates: "raise", or "drop" for edges that are there twice.
        dtypes: By column: a pandas.CategoricalDtype, whose categories are the bins' names.
        output_columns: Where they go; None: into the same columns.
    """

    _is_fittable = False

    def __init__(self, columns: List[str], bins: Union[Iterable[float], Any, Dict[str, Any]], *, right: bool = True,
                 include_lowest: bool = False, duplicates: str = "raise", dtypes: Optional[Dict[str, Any]] = None,
                 output_columns: Optional[List[str]] = None):
        super().__init__(columns, bins, right, include_lowest, duplicates, dtypes, output_columns)


class UniformKBinsDiscretizer(_OfBins):
    """The number of the bin, of bins of one width from the smallest number to the largest.

    Args:
        columns: Of numbers.
        bins: How many; or how many by column.
        right: Whether bins have their upper edge, and not their lower one.
        include_lowest: Whether the first has its lower edge.
        duplicates: "raise", or "drop" for edges that are there twice.
        dtypes: By column: a pandas.CategoricalDtype, whose categories are the bins' names.
        output_columns: Where they go; None: into the same columns.
    """

    def __init__(self, columns: List[str], bins: Union[int, Dict[str, int]], *, right: bool = True,
                 include_lowest: bool = False, duplicates: str = "raise", dtypes: Optional[Dict[str, Any]] = None,
                 output_columns: Optional[List[str]] = None):
        super().__init__(columns, bins, right, include_lowest, duplicates, dtypes, output_columns)

    def _fit(self, ds):
        for column in self.columns:
            if not isinstance(self._bins_of(column), int):
                raise TypeError(f"bins is {self._bins_of(column)!r} for {column!r}; wanted: a number of bins")
        of = [aggregate.Min(column) for column in self.columns]
        found = ds.aggregate(*of, *(aggregate.Max(column) for column in self.columns))
        for column in self.columns:
            least, greatest = found[f"min({column})"], found[f"max({column})"]
            if least is None or least != least:
                raise ValueError(f"the column {column!r} has no values to find bins for")
            self.stats_[column] = _edges(float(least), float(greatest), self._bins_of(column), self.right)
        return self


def _edges(least, greatest, bins, right):
    """As pandas.cut() has them for a number of bins: a thousandth wider at the side where a bin is without its edge."""
    if numpy.isinf(least) or numpy.isinf(greatest):
        raise ValueError("numbers of which some are infinite have no bins of one width")
    if least == greatest:
        least -= 0.001 * abs(least) or 0.001
        greatest += 0.001 * abs(greatest) or 0.001
        return numpy.linspace(least, greatest, bins + 1)
    edges = numpy.linspace(least, greatest, bins + 1)
    if right:
        edges[0] -= (greatest - least) * 0.001
    else:
        edges[-1] += (greatest - least) * 0.001
    return edges
