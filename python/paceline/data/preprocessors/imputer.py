"""Values in the place of nulls."""

from typing import Any, List, Optional

from paceline.data.preprocessors._columns import KnownMean, OfColumns, counts_of
from paceline.data.preprocessors.encoder import is_null


class SimpleImputer(OfColumns):
    """Fills nulls and NaN, and columns that are not there.

    Args:
        columns: Those with nulls.
        strategy: "mean"; "most_frequent"; "constant": fill_value.
        fill_value: For "constant".
        output_columns: Where they go; None: into the same columns.
    """

    def __init__(self, columns: List[str], strategy: str = "mean", fill_value: Any = None, *,
                 output_columns: Optional[List[str]] = None):
        super().__init__(columns, output_columns)
        if strategy not in ("mean", "most_frequent", "constant"):
            raise ValueError(f"strategy is {strategy!r}; allowed: 'mean', 'most_frequent', 'constant'")
        if strategy == "constant":
            if fill_value is None:
                raise ValueError("the strategy 'constant' needs a fill_value")
            self._is_fittable = False
        self.strategy, self.fill_value = strategy, fill_value

    def _fit(self, ds):
        if self.strategy == "mean":
            self.stats_ = ds.aggregate(*(KnownMean(column) for column in self.columns))
            return self
        for column, counts in counts_of(ds, self.columns).items():
            known = [(value, count) for value, count in counts.most_common() if not is_null(value)]
            self.stats_[f"most_frequent({column})"] = known[0][0] if known else None
        return self

    def _transform_pandas(self, frame):
        return self._with(frame, [self._filled(frame, column) for column in self.columns])

    def _filled(self, frame, column):
        value = self.fill_value if self.strategy == "constant" else self.stats_[f"{self.strategy}({column})"]
        if value is None:
            raise ValueError(f"the column {column!r} had no values to learn from, so there is nothing to fill its nulls with")
        if column not in frame.columns:
            return value
        values = frame[column]
        if values.dtype.name == "category" and value not in values.cat.categories:
            values = values.cat.add_categories([value])
        return values.fillna(value)
